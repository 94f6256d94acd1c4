package rdmatest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// official maps every test of NetworkDirect to the cases that check its subject. Each of
// the cases has the name of the test in its Source.
//
// Source: [ND §9]
var official = map[string]string{
	"ndadapterinfo":       "adapter/info adapter/addresses",
	"ndping":              "flow/credits flow/full-depth",
	"ndpingpong":          "flow/both-ways",
	"ndrping":             "write/polled-word",
	"ndrpingpong":         "write/polled-word",
	"ndmrlat":             "memory/many",
	"ndmrrate":            "memory/many",
	"ndcq":                "cancel/notify notify/releases-all",
	"ndmw":                "window/transfer write/descending connect/private-data",
	"ndmval":              "end/message-longer-than-receive",
	"ndconn":              "connect/many",
	"ndmpic":              "reject/collision",
	"NdConnListenClosing": "reject/closing-listener reject/no-listener",
	"NdConnReject":        "reject/by-client",
	"NdConnClose":         "reject/client-closes reject/listener-side-closes",
	"NdDualConnection":    "connect/dual-bind connect/dual-connect",
	"NdDualListen":        "listen/dual-listen",
	"NdInvalidIP":         "connect/unroutable",
	"NdInvalidRead":       "read/violations window/read-violations atomic/violations",
	"NdInvalidWrite":      "violation/token violation/closed-region window/write-violations",
	"NdOverRead":          "read/violations window/read-violations",
	"NdOverWrite":         "violation/bounds violation/wrap-around window/write-violations",
	"NdWriteViolation":    "violation/rights window/write-violations",
	"NdLargePrivateData":  "connect/private-data-too-long",
	"NdLargeQPDepth":      "adapter/queue-pair-parameters",
	"NdQpMaxAll":          "adapter/all-at-maximum flow/full-depth",
	"NdMRDeregister":      "window/busy",
	"NdMRInvalidBuffer":   "memory/invalid-buffer",
	"NdReceiveFlushQP":    "queue/flush-unconnected",
	"NdReceiveConnClosed": "end/peer-closes",
	"NdSendNoReceive":     "end/no-receive-posted",
	"CompletionQueue.Notify": `notify/releases-all notify/once-per-result notify/pending-result notify/no-lost-wake-up
		notify/solicited-becomes-any notify/failure-satisfies-solicited notify/errors notify/close cq/overrun`,
	"QueuePair §Ordering": "message/order write/then-send read/order read/after-write window/order",
	"READ_FENCE":          "message/read-fence read/fence",
}

// beyond maps further requirements to their cases.
var beyond = map[string]string{
	"random operations against a model": "random/model",
	"concurrent use":                    "flow/concurrent-posts connect/many atomic/many-connections",
	"use after close of every object": `close/region-use close/window-use close/queue-use close/queue-pair-use close/connector-use
		close/listener-use close/adapter-use close/closed-parts shared/close file/refused`,
	"close":        "close/twice close/adapter-closes-all shared/waiting-closes window/connection-ends violation/close-is-final",
	"cancellation": "cancel/connect cancel/accept cancel/connection-request cancel/notify cancel/ended-context",
}

// Every case of the tables exists, and its Source names the test.
func TestEveryOfficialTestHasCases(t *testing.T) {
	sources := make(map[string]string)
	test := regexp.MustCompile(`\[ND ([Nn]d\w+)\]`)
	for _, c := range Cases() {
		sources[c.Name] = c.Source
		for _, m := range test.FindAllStringSubmatch(c.Source, -1) {
			if !slices.Contains(strings.Fields(official[m[1]]), c.Name) {
				t.Errorf("%s is not in the row of %s", c.Name, m[1])
			}
		}
	}
	for _, table := range []map[string]string{official, beyond} {
		for row, names := range table {
			for _, name := range strings.Fields(names) {
				source, ok := sources[name]
				if !ok {
					t.Errorf("%s: there is no case %s", row, name)
				}
				if _, ours := beyond[row]; !ours && !strings.Contains(source, row+"]") {
					t.Errorf("%s: the source of %s is %s", row, name, source)
				}
			}
		}
	}
}
