// Command soak lets several clients use two shares of a server at once, for a time,
// while connections are cut and delayed, credits are short, callers leave, files are
// opened and closed, clients come and go, and the server stands still now and then.
//
//	go run ./soak -time 10m -seed 1
//
// Each 512 bytes of the files hold their file and place, the number of their write, and a
// checksum. The program knows which writes may be there, and compares every read. Between rounds everything is closed, and both processes count
// goroutines, descriptors, mappings and memory, which must not grow from round to round.
// It fails on any wrong byte, on an error without a reason, on growth, and on a call that
// does not end, after it has printed all goroutines.
package main
