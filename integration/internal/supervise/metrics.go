package supervise

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metrics are the values of a scrape, by name with labels, such as lwio_connections{kind="smb"}.
type Metrics map[string]float64

// scrapes makes scrapes, each on a connection of its own, so that none is left open.
var scrapes = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTime}

// Metrics scrapes the process. Precondition: Config.Metrics is set.
//
// Errors: the errors of the connection; an answer that has no metrics.
func (s *Server) Metrics() (Metrics, error) {
	answer, err := scrapes.Get("http://" + loopback(s.scraped) + "/metrics")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape: %s", answer.Status)
	}
	return parse(answer.Body)
}

// parse reads metrics in the text format of Prometheus.
func parse(r io.Reader) (Metrics, error) {
	all := make(Metrics)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("scrape: the line %q has no value", line)
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("scrape: the line %q: %w", line, err)
		}
		all[line[:at]] = v
	}
	return all, lines.Err()
}
