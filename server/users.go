package server

import (
	"strings"

	"lwio/internal/smb/smbauth"
)

// Users are passwords by user name, in whatever case; the domain that a client
// names plays no part. It must not change while a server uses it.
type Users map[string]string

// Lookup is a Config.Lookup.
func (u Users) Lookup(_, user string) (ntHash [16]byte, ok bool) {
	password, ok := u[user]
	if !ok {
		for name, p := range u {
			if strings.EqualFold(name, user) {
				password, ok = p, true
				break
			}
		}
	}
	if !ok {
		return ntHash, false
	}
	return smbauth.NTHash(password), true
}
