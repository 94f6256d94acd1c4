// Package bench measures file I/O: the rate of operations, the latency of each, and the
// CPU time of both sides.
//
// A Job describes the load with the terms of fio. A Target is one transport to a file: the
// local file system, or a share over a provider or SMB. Run does a job on a target; Compare
// does it on several in turns, so that a disturbance affects all, and returns medians.
//
// Each block of a file holds a content that depends on its offset (see FillFile), and after a
// verified write another one, so that both reads and writes can be verified.
package bench
