package main

// retired maps a retired term to the term that replaces it. A term is one word in lower
// case; it is retired as a word of a text and as a word inside an identifier.
var retired = map[string]string{
	"baton":     "poller",
	"rail":      "path",
	"rails":     "paths",
	"leg":       "path",
	"legs":      "paths",
	"debt":      "unacknowledged",
	"debts":     "unacknowledged requests",
	"owed":      "unacknowledged",
	"repay":     "replay",
	"mourner":   "close watcher",
	"mourners":  "close watchers",
	"hope":      "spin backoff",
	"crowd":     "oversubscription",
	"loan":      "by reference",
	"loans":     "by reference",
	"lent":      "by reference",
	"lend":      "by reference",
	"lends":     "by reference",
	"told":      "reported",
	"heard":     "seen",
	"glance":    "busy-poll",
	"grip":      "registration cache",
	"stranger":  "unauthenticated peer",
	"strangers": "unauthenticated peers",
	"belated":   "late",
	"pmqos":     "removed",
}

// retiredIdentifiers are retired as words inside identifiers only: in a text they are
// ordinary English.
var retiredIdentifiers = map[string]string{
	"lane":      "file queue, or path",
	"lanes":     "file queues, or paths",
	"brake":     "auth limit",
	"octets":    "hex message",
	"mortal":    "fault connection",
	"parting":   "draining",
	"companion": "RDMA listener",
	"kick":      "wake",
	"kicker":    "waker",
	"bell":      "doorbell",
	"soft":      "softrdma",
	"house":     "project",
	"bury":      "handle a lost connection",
	"cemetery":  "the thing itself",
	"dealer":    "current path",
	"feed":      "clear waiting for credit",
	"hopeless":  "the longest delay",
	"keeper":    "maintainer",
	"keepers":   "maintainers",
	"starve":    "set waiting for credit",
	"starved":   "waiting for credit",
}

// pronouns stand where a sentence needs the thing itself.
var pronouns = map[string]bool{
	"who": true, "whoever": true, "whom": true, "whomever": true,
	"somebody": true, "someone": true, "nobody": true, "anybody": true, "anyone": true,
	"everybody": true, "everyone": true, "he": true, "she": true, "him": true, "his": true,
	"himself": true, "what": true, "whatever": true,
}

// wordTestNames are the names of tests that may be a single word after "Test".
var wordTestNames = map[string]bool{"TestMain": true}
