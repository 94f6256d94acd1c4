// Package config reads the configuration file of lwio serve, in TOML:
//
//	users = "users"            # file of users, made by lwio user
//	listen = "0.0.0.0:4450"    # keys have the names and the meanings of the flags of serve
//	rdma-listen = ["10.1.0.1:5445"]
//	provider = ["iwarp"]
//	encryption = "required"
//	durable-timeout = "2m"
//	orphans = 1000
//	smb-memory = "128m"
//
//	[[share]]
//	name = "data"
//	path = "/srv/data"
//	read = ["*"]               # may read: all users
//	write = ["alice", "bob"]   # may read and change
//	read-only = false
//	encryption = "required"    # or "offered", as --encryption says
//
// The keys users and [[share]] are necessary. Paths are relative to the directory of the file. A
// share that names no user can be used by none, which is an error. Users of the rights need not
// exist: the file of users can lose a user first.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/pelletier/go-toml/v2"

	"lwio/cmd/lwio/internal/userfile"
	"lwio/internal/account"
	"lwio/vfs"
)

// maxSize bounds a file, in bytes.
const maxSize = 1 << 20

// allUsers stands for all users in the rights of a share.
const allUsers = "*"

// File is the content of a configuration file.
type File struct {
	// Users is the path of the file of users.
	Users string `toml:"users"`
	Flags
	// Shares are the shares in the order of the file.
	Shares []Share `toml:"share"`
}

// Share is a share and the rights on it.
type Share struct {
	Name string `toml:"name"`
	// Path is the directory.
	Path string `toml:"path"`
	// ReadOnly refuses all changes.
	ReadOnly bool `toml:"read-only"`
	// Read are the users that may read, and Write those that may read and change.
	Read  []UserName `toml:"read"`
	Write []UserName `toml:"write"`
	// Encryption says which requests for the share are encrypted.
	Encryption Encryption `toml:"encryption"`
}

// UserName is the name of a user, or "*" for all users.
type UserName struct{ name string }

// UnmarshalText checks the name. Its error gets the position in the file.
func (u *UserName) UnmarshalText(text []byte) error {
	u.name = string(text)
	if u.name == allUsers {
		return nil
	}
	return userfile.CheckName(u.name)
}

// Encryption is the encryption of a share.
type Encryption struct{ required bool }

// UnmarshalText checks the word. Its error gets the position in the file.
func (e *Encryption) UnmarshalText(text []byte) error {
	switch string(text) {
	case "offered":
		e.required = false
	case "required":
		e.required = true
	default:
		return errors.New("encryption of a share is \"offered\" or \"required\"")
	}
	return nil
}

// Required reports whether the share requires encryption.
func (e Encryption) Required() bool { return e.required }

// Read reads a configuration file.
//
// Errors name the file, and the line of an unknown key, of a value of the wrong kind and of a syntax
// error. There can be several of them, joined. A file that users other than its owner may change is refused.
func Read(name string) (*File, error) {
	text, err := readText(name)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	f := new(File)
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, located(name, err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	dir := filepath.Dir(name)
	f.Users = within(dir, f.Users)
	f.Flags.within(dir)
	for i := range f.Shares {
		f.Shares[i].Path = within(dir, f.Shares[i].Path)
	}
	return f, nil
}

// readText returns the content of a file of a reasonable size.
func readText(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case runtime.GOOS != "windows" && info.Mode()&fs.ModeCharDevice == 0 && info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s has mode %#o: other users may change it, and so their rights; run 'chmod go-w' on it", name, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s: longer than %d bytes", name, maxSize)
	}
	return text, err
}

// located adds file and line to the errors of the decoder.
func located(name string, err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var all []error
		for _, e := range unknown.Errors {
			line, _ := e.Position()
			all = append(all, fmt.Errorf("%s:%d: unknown key %q", name, line, keyText(e.Key())))
		}
		return errors.Join(all...)
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, _ := decode.Position()
		return fmt.Errorf("%s:%d: %w", name, line, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// keyText is a key as the file spells it.
func keyText(key toml.Key) string {
	var b bytes.Buffer
	for i, k := range key {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(k)
	}
	return b.String()
}

// check checks the rules between values.
func (f *File) check() error {
	switch {
	case f.Users == "":
		return errors.New("no key users: it names the file of users")
	case len(f.Shares) == 0:
		return errors.New("no [[share]]: there is nothing to serve")
	}
	for i, s := range f.Shares {
		switch {
		case s.Name == "":
			return fmt.Errorf("share %d has no name", i+1)
		case s.Path == "":
			return fmt.Errorf("share %q has no path", s.Name)
		case len(s.Read) == 0 && len(s.Write) == 0:
			return fmt.Errorf("share %q: no user may use it; name users in read or write, or \"*\" for all", s.Name)
		}
	}
	return nil
}

// within returns an absolute path unchanged, and any other path relative to dir.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Rights are the rights of the users on a share. The zero value gives no user a right. Safe for
// concurrent use.
type Rights struct {
	others vfs.Rights            // of users without an entry
	users  map[string]vfs.Rights // by folded name
}

// Rights returns the rights of the share.
func (s *Share) Rights() Rights {
	r := Rights{users: make(map[string]vfs.Rights)}
	grant := func(names []UserName, rights vfs.Rights) {
		for _, name := range names {
			if name.name == allUsers {
				r.others = max(r.others, rights)
				continue
			}
			key := account.Fold(name.name)
			r.users[key] = max(r.users[key], rights)
		}
	}
	grant(s.Read, vfs.ReadOnly)
	grant(s.Write, vfs.ReadWrite)
	if s.ReadOnly {
		return r.atMost(vfs.ReadOnly)
	}
	return r
}

// atMost bounds all rights.
func (r Rights) atMost(most vfs.Rights) Rights {
	r.others = min(r.others, most)
	for key := range r.users {
		r.users[key] = min(r.users[key], most)
	}
	return r
}

// Of returns the rights of a user.
func (r Rights) Of(user string) vfs.Rights {
	return max(r.others, r.users[account.Fold(user)])
}

// Users lists the users that the rights name, without "*".
func (s *Share) Users() (names []string) {
	for _, list := range [][]UserName{s.Read, s.Write} {
		for _, name := range list {
			if name.name != allUsers {
				names = append(names, name.name)
			}
		}
	}
	return names
}
