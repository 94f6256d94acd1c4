package server

import (
	"strings"

	"lwio/internal/smb/smbauth"
)

// Users maps user names, without regard to case, to passwords. The domain that a client names
// is ignored. The map must not change while a server uses it.
type Users map[string]string

// Lookup returns the NT hash of a user's password, as Config.Lookup does.
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
