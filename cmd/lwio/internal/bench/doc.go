// Package bench measures file I/O: how many operations a second, how long each
// takes, and what they cost in CPU on both sides.
//
// A Job says what to do, in the words of fio. A Target is a way to a file: the
// local file system, or a share over one of the transports. Run does a job on a
// target; Compare does it on several in turns, so that what disturbs one disturbs
// all, and gives medians.
//
// Every block of a file holds what its offset says (see FillFile), and after a write
// something else that follows from it, so that both reads and writes can be verified.
package bench
