//go:build !unix

package main

import "io/fs"

const openPartFlags = 0

func isOwnPart(fi fs.FileInfo) bool { return fi.Mode().IsRegular() }
