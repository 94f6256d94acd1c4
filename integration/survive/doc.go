// Package survive tests that acknowledged work outlives failures: servers that are killed, and connections that
// are cut. The tests run 'lwio serve' as a process, and compare files with ledgers, databases with their
// transactions, and histories of calls with a model.
//
//	go test ./survive -kills 1000
package survive
