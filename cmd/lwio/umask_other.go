//go:build !unix

package main

import "io/fs"

// umask is 0 where files have no mode creation mask.
func umask() fs.FileMode { return 0 }

// withUmask calls do.
func withUmask(_ fs.FileMode, do func()) { do() }
