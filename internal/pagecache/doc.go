// Package pagecache asks the kernel what it has of a file in memory.
package pagecache
