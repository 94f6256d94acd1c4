// Package spec lists the sections and the claims of the LWIO text, and the decisions of
// docs/protocol.md. Its test collects the source tags of code and tests, prints sections, claims
// and decisions without a tag, and fails for a tag that names a section of any text that does not
// exist. Other tests have tables of the rules that a peer can break, and of the tests in which a
// hostile peer does.
//
// Source: [LWIO §Network Discovery], [LWIO claim 1]
package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// Sections are the sections of the text that specify the protocol, in its order.
// "Discovery" is the part before "Network Discovery": the announcement of the server and the
// resume key.
func Sections() []string {
	return []string{
		"Discovery", "Network Discovery", "Connection Authentication", "File Registration",
		"I/O Processing", "Wakeup", "Credits", "Close", "Cancel",
		"Read", "Write", "Vectored Read", "Vectored Write",
	}
}

// Claim is a claim of the text.
type Claim struct {
	Number int
	// About is its subject in a few words.
	About string
}

// Claims are the claims of the text.
func Claims() []Claim {
	about := []string{
		"client and server over an RDMA channel, discovery then I/O",
		"reads by RDMA, writes by Send",
		"beside a second protocol",
		"which is SMB",
		"which is CIFS",
		"claim 1 as a medium",
		"shared providers are discovered, then requests are posted",
		"resume key, pipe, negotiate request and response",
		"RDMA connection over a shared provider, authenticated",
		"files are registered over it",
		"register message and its completion",
		"the client's key must match, then the server answers",
		"the key is that of the negotiate response",
		"a status response completes the authentication",
		"close, cancel, read, write, vectored read and write",
		"reads are completed by RDMA Writes, writes come by Send",
		"collapse flag of the vectored write",
		"the request says whether completion is polled",
		"by the interrupt flag of its header",
		"status block by RDMA, in the mode that the description says",
		"polling client is woken by an interrupt response",
		"credits in the header of a request",
		"claim 7 as a medium",
		"delta credit, credit messages, their completions",
	}
	claims := make([]Claim, len(about))
	for i, a := range about {
		claims[i] = Claim{Number: i + 1, About: a}
	}
	return claims
}

// decisionRanges are the numbers of the decisions: single ones, and ranges of
// numbers or of letters.
const decisionRanges = `1-49 50a-50j 51-73 74a-74c 75-91 92a-92i 93a-93f 94a-94g 95-116 118
	5c 32b 38b 42b 46b 46c 52b 58b 60b 61b-61c 66b 89b 111b 114b`

// Decisions are the numbers of the decisions by which ambiguities of the text are
// settled, as they stand in tags after "OP-".
func Decisions() []string {
	var all []string
	for _, r := range strings.Fields(decisionRanges) {
		first, last, found := strings.Cut(r, "-")
		if !found {
			all = append(all, first)
			continue
		}
		from, err := strconv.Atoi(first)
		if err != nil { // letters
			stem := first[:len(first)-1]
			for l := first[len(stem)]; l <= last[len(last)-1]; l++ {
				all = append(all, stem+string(l))
			}
			continue
		}
		to, _ := strconv.Atoi(last)
		for ; from <= to; from++ {
			all = append(all, fmt.Sprint(from))
		}
	}
	return all
}
