// Package smbshare is the SMB side of a client: the session, the share, open files, names and
// locks.
package smbshare
