// Package base has the parts of the client that every layer uses: errors, settings, counters,
// the URL and the description of a transport. Package lwio defines the public forms of most of
// them.
package base
