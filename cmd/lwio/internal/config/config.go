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
// The keys users and [[share]] are necessary. Settings is the table of all others. Paths are relative to
// the directory of the file. A share that names no user can be used by none, which is an error. Users of the
// rights need not exist: the file of users can lose a user first.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

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
	Users string
	// Shares are the shares in the order of the file.
	Shares []Share

	name   string
	values map[string]string // texts of the settings of the file, as flags take them
	lines  map[string]int    // lines of the keys outside of tables
	tables []int             // lines of the [[share]] headers
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
// Errors: one *Mistake for each mistake, joined, with file and line; a file that users other than its owner
// may change.
func Read(name string) (*File, error) {
	text, err := readText(name)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	f := &File{name: name, values: make(map[string]string)}
	settings, err := f.decode(text)
	if err != nil {
		return nil, located(name, err)
	}
	f.locate(text)
	dir := filepath.Dir(name)
	if err := errors.Join(f.take(settings, dir), f.check()); err != nil {
		return nil, err
	}
	f.Users = within(dir, f.Users)
	for i := range f.Shares {
		f.Shares[i].Path = within(dir, f.Shares[i].Path)
	}
	return f, nil
}

// decode reads the text into f, and returns the values of the settings that the text has.
func (f *File) decode(text []byte) (values map[string]any, err error) {
	fields := []reflect.StructField{
		{Name: "Users", Type: reflect.TypeFor[string](), Tag: `toml:"users"`},
		{Name: "Shares", Type: reflect.TypeFor[[]Share](), Tag: `toml:"share"`},
	}
	for i, s := range settings {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprint("Setting", i), Type: reflect.TypeFor[any](), Tag: reflect.StructTag(`toml:"` + s.Key + `"`),
		})
	}
	into := reflect.New(reflect.StructOf(fields))
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into.Interface()); err != nil {
		return nil, err
	}
	f.Users = into.Elem().Field(0).String()
	f.Shares, _ = into.Elem().Field(1).Interface().([]Share)
	values = make(map[string]any)
	for i, s := range settings {
		if v := into.Elem().Field(2 + i); !v.IsNil() {
			values[s.Key] = v.Interface()
		}
	}
	return values, nil
}

// locate finds the lines of the keys and of the shares. The text has no syntax error.
func (f *File) locate(text []byte) {
	f.lines = make(map[string]int)
	var p unstable.Parser
	p.Reset(text)
	top := true
	for p.NextExpression() {
		e := p.Expression()
		key := e.Key()
		if !key.Next() {
			continue
		}
		name, line := string(key.Node().Data), p.Shape(key.Node().Raw).Start.Line
		switch {
		case e.Kind == unstable.KeyValue && top:
			f.lines[name] = line
		case e.Kind == unstable.ArrayTable && name == "share":
			top = false
			f.tables = append(f.tables, line)
		case e.Kind != unstable.KeyValue:
			top = false
		}
	}
}

// take checks the values of the settings, and makes paths relative to the directory of the file.
func (f *File) take(values map[string]any, dir string) error {
	var scratch Options
	var all []error
	for i := range settings {
		s := &settings[i]
		value, ok := values[s.Key]
		if !ok {
			continue
		}
		text, err := fromFile(s.value(&scratch), value)
		if err == nil {
			err = s.Set(&scratch, text)
		}
		if err != nil {
			all = append(all, f.mistake(s.Key, err))
			continue
		}
		if _, is := s.value(&scratch).(*pathValue); is && text != "" && text != "-" {
			text = within(dir, text)
		}
		f.values[s.Key] = text
	}
	return errors.Join(all...)
}

// Has reports whether the file has a setting.
func (f *File) Has(key string) bool {
	if f == nil {
		return false
	}
	_, ok := f.values[key]
	return ok
}

// Apply returns o with the settings of the file, without those that given reports.
func (f *File) Apply(o Options, given func(key string) bool) (Options, error) {
	for i := range settings {
		s := &settings[i]
		if !f.Has(s.Key) || given(s.Key) {
			continue
		}
		if err := s.Set(&o, f.values[s.Key]); err != nil {
			return o, f.mistake(s.Key, err)
		}
	}
	return o, nil
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

// located makes mistakes of the errors of the decoder.
func located(name string, err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var all []error
		for _, e := range unknown.Errors {
			line, _ := e.Position()
			all = append(all, &Mistake{File: name, Line: line, Err: fmt.Errorf("unknown key %q", keyText(e.Key()))})
		}
		return errors.Join(all...)
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, _ := decode.Position()
		return &Mistake{File: name, Line: line, Err: err}
	}
	return &Mistake{File: name, Err: err}
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

// check checks the users and the shares.
func (f *File) check() error {
	var all []error
	if f.Users == "" {
		all = append(all, &Mistake{File: f.name, Err: errors.New("no key users: it names the file of users")})
	}
	if len(f.Shares) == 0 {
		all = append(all, &Mistake{File: f.name, Err: errors.New("no [[share]]: there is nothing to serve")})
	}
	names := make(map[string]bool)
	for i, s := range f.Shares {
		var err error
		switch key := account.Fold(s.Name); {
		case s.Name == "":
			err = fmt.Errorf("share %d has no name", i+1)
		case names[key]:
			err = fmt.Errorf("share %q: two shares have the same name", s.Name)
		case s.Path == "":
			err = fmt.Errorf("share %q has no path", s.Name)
		case len(s.Read) == 0 && len(s.Write) == 0:
			err = fmt.Errorf("share %q: no user may use it; name users in read or write, or \"*\" for all", s.Name)
		}
		names[account.Fold(s.Name)] = true
		if err != nil {
			all = append(all, f.ShareMistake(i, err))
		}
	}
	return errors.Join(all...)
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
