// Package cputime says how much of the processors this process has used.
package cputime
