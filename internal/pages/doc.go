// Package pages gives the memory of pages that hold nothing back to the system, while
// the addresses stay as they are.
package pages
