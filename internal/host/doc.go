// Package host asks the operating system about this process and its host: memory, processor
// time, descriptors, the page cache and page faults.
package host
