// Command soak lets several clients use two shares of a server for a time. Meanwhile
// connections are cut and delayed, credits are short, calls are given up, files are opened
// and closed, clients come and go, and the server's process is stopped at random times.
//
//	go run ./soak -time 10m -seed 1
//
// Each 512 bytes of the files hold their file and place, the number of their write, and a
// checksum. The program records the possible writes, and compares every read. Between
// rounds all connections are closed, and both processes count goroutines, descriptors,
// mappings and memory, which must not grow from round to round. The program fails on a
// wrong byte, an error without a cause, growth, and a call that does not end; then it
// prints all goroutines.
package main
