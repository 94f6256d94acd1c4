// Package userfile reads and changes the file of the users of a server.
//
// Each line is one user: NAME:{NT} and the NT hash of the password in 32 hexadecimal digits. NTLM
// needs this hash, and it is as good as the password: a program that has it can log on. A user with
// NAME:{KERBEROS} has no password here and logs on by Kerberos only. The older form NAME:PASSWORD is
// read too. Empty lines and lines that begin with # are kept and have no
// other meaning.
package userfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"lwio/cmd/lwio/internal/secret"
	"lwio/internal/account"
	"lwio/server"
)

// scheme marks a hash, and kerberosOnly a user without one.
const (
	scheme       = "{NT}"
	kerberosOnly = "{KERBEROS}"
)

// maxName bounds the name of a user, in bytes.
const maxName = 256

// User is a user of the file.
type User struct {
	// Name is the name as the file spells it.
	Name string
	// NTHash is the NT hash of the password, or NoPassword.
	NTHash [16]byte
	// Plain reports that the file has the password itself.
	Plain bool
}

// NoPassword is the NTHash of a user that logs on by Kerberos only: the hash of the empty password, with
// which the server lets no user log on.
var NoPassword = server.NTHash("")

// File is the content of a file of users. The zero value has no users. A File that no goroutine
// changes is safe for concurrent use.
type File struct {
	lines  []line
	byName map[string]int // index into lines, by folded name
}

// line is a line of the file: a user, or text that is kept.
type line struct {
	user *User
	text string
}

// Read reads a file of users. It may have none.
//
// Errors name the file and the line, and have no content of the file: secret.ErrMode; an invalid
// line or name; a name that occurs twice, in any spelling; an empty password, or its hash.
func Read(name string) (*File, error) {
	text, err := secret.ReadLines(name)
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	f, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read users: %s: %w", name, err)
	}
	return f, nil
}

// parse makes a File of the lines of one.
func parse(text []string) (*File, error) {
	if text[len(text)-1] == "" {
		text = text[:len(text)-1] // behind the last end of a line
	}
	f := new(File)
	for i, t := range text {
		if t == "" || strings.HasPrefix(t, "#") {
			f.lines = append(f.lines, line{text: t})
			continue
		}
		u, err := parseUser(t)
		if err == nil && f.find(u.Name) != nil {
			err = errors.New("the user occurs twice")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		f.Set(u)
	}
	return f, nil
}

// parseUser makes a user of a line.
func parseUser(text string) (User, error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return User{}, errors.New("not of the form USER:{NT}HASH or USER:PASSWORD")
	}
	if err := CheckName(name); err != nil {
		return User{}, err
	}
	if value == kerberosOnly {
		return User{Name: name, NTHash: NoPassword}, nil
	}
	digits, hashed := strings.CutPrefix(value, scheme)
	if !hashed {
		hash, err := Hash(value)
		return User{Name: name, NTHash: hash, Plain: true}, err
	}
	u := User{Name: name}
	if n, err := hex.Decode(u.NTHash[:], []byte(digits[:min(len(digits), 32)])); err != nil || n != 16 || len(digits) != 32 {
		return User{}, errors.New("behind {NT} there must be 32 hexadecimal digits")
	}
	if u.NTHash == NoPassword {
		return User{}, errEmpty
	}
	return u, nil
}

// errEmpty refuses a user without a password.
var errEmpty = errors.New("the password is empty")

// CheckName returns an error for a name that no user may have.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("no user name")
	case len(name) > maxName:
		return fmt.Errorf("a user name of more than %d bytes", maxName)
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl), strings.ContainsAny(name, `"/\[]:;|=,+*?<>@`),
		name[0] == '#', strings.TrimSpace(name) != name:
		return errors.New("a user name has a character that no user name may have")
	}
	return nil
}

// Hash returns the NT hash of a password, which must not be empty.
func Hash(password string) ([16]byte, error) {
	switch {
	case password == "":
		return [16]byte{}, errEmpty
	case !utf8.ValidString(password), strings.ContainsAny(password, "\r\n\x00"):
		return [16]byte{}, errors.New("the password has a character that no password may have")
	}
	return server.NTHash(password), nil
}

// Users lists the users in the order of the file.
func (f *File) Users() (all []User) {
	for _, l := range f.lines {
		if l.user != nil {
			all = append(all, *l.user)
		}
	}
	return all
}

// find returns the user of a name, in any spelling; nil if there is none.
func (f *File) find(name string) *User {
	i, ok := f.byName[account.Fold(name)]
	if !ok {
		return nil
	}
	return f.lines[i].user
}

// Lookup is a server.Config.Lookup. It ignores domains and the case of names.
func (f *File) Lookup(_, name string) (canonical string, ntHash [16]byte, ok bool) {
	u := f.find(name)
	if u == nil {
		return "", ntHash, false
	}
	return u.Name, u.NTHash, true
}

// Has reports whether the file has a user.
func (f *File) Has(name string) bool { return f.find(name) != nil }

// Set adds a user, or changes the user of the same name.
func (f *File) Set(u User) {
	if old := f.find(u.Name); old != nil {
		u.Name = old.Name
		*old = u
		return
	}
	if f.byName == nil {
		f.byName = make(map[string]int)
	}
	f.byName[account.Fold(u.Name)] = len(f.lines)
	f.lines = append(f.lines, line{user: &u})
}

// Remove removes a user. It reports whether there was one.
func (f *File) Remove(name string) bool {
	at, ok := f.byName[account.Fold(name)]
	if !ok {
		return false
	}
	f.lines = append(f.lines[:at:at], f.lines[at+1:]...)
	delete(f.byName, account.Fold(name))
	for key, i := range f.byName {
		if i > at {
			f.byName[key] = i - 1
		}
	}
	return true
}

// text returns the content of the file, with hashes only.
func (f *File) text() []byte {
	var b bytes.Buffer
	for _, l := range f.lines {
		if l.user == nil {
			b.WriteString(l.text + "\n")
			continue
		}
		if l.user.NTHash == NoPassword {
			fmt.Fprintf(&b, "%s:%s\n", l.user.Name, kerberosOnly)
			continue
		}
		fmt.Fprintf(&b, "%s:%s%x\n", l.user.Name, scheme, l.user.NTHash)
	}
	return b.Bytes()
}

// Change reads a file, or begins with no users if there is none, calls change, and replaces the file
// if change returns no error. Plain passwords of the file become hashes. Calls for the same
// file, of all processes, take turns.
func Change(name string, change func(f *File) error) error {
	unlock, err := secret.Lock(name)
	if err != nil {
		return fmt.Errorf("change users: %w", err)
	}
	defer unlock()
	f, err := Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = new(File), nil
	}
	if err == nil {
		err = change(f)
	}
	if err != nil {
		return err
	}
	if err := secret.WriteFile(name, f.text()); err != nil {
		return fmt.Errorf("change users: %w", err)
	}
	return nil
}
