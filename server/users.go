package server

import (
	"strings"

	"lwio/internal/smb/smbauth"
)

// NTHash returns the NT hash of a password: the MD4 digest of its UTF-16. A Config.Lookup returns
// it, and a user database may store it in place of the password. An attacker that has the hash
// can log on with it.
//
// Source: [MS-NLMP 3.3.1]
func NTHash(password string) [16]byte { return smbauth.NTHash(password) }

// Users maps user names to passwords. Its Lookup method is a Config.Lookup that ignores the case
// of user names and ignores domains. The map must not change while a server uses it.
type Users map[string]string

// Lookup returns the name of user as the map spells it, and the NT hash of its password. If several
// names of the map differ in case only, user is the name with the same spelling, else the least.
// ok is false for an unknown user.
func (u Users) Lookup(_, user string) (name string, ntHash [16]byte, ok bool) {
	name = user
	if _, ok = u[name]; !ok {
		for n := range u {
			if strings.EqualFold(n, user) && (!ok || n < name) {
				name, ok = n, true
			}
		}
	}
	if !ok {
		return "", ntHash, false
	}
	return name, NTHash(u[name]), true
}
