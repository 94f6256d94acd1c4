//go:build !unix

package main

import "io/fs"

// checkPrivate checks nothing: the system has no such modes.
func checkPrivate(fs.FileInfo) error { return nil }

// checkWritable checks nothing: the system has no such modes.
func checkWritable(string) error { return nil }
