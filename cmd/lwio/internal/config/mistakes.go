package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lwio/server"
)

// Mistake is a mistake in a configuration file or on the command line.
type Mistake struct {
	// File is the name of the file, "" for the command line.
	File string
	// Line is the line of the file, from 1; 0 if it is not known.
	Line int
	// Key is the setting; "" if the text of the error names the object.
	Key string
	// Err is the mistake.
	Err error
}

// Error returns FILE:LINE: KEY: TEXT, or --KEY: TEXT.
func (m *Mistake) Error() string {
	var b strings.Builder
	switch {
	case m.File == "" && m.Key != "":
		b.WriteString("--")
	case m.File != "" && m.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", m.File, m.Line)
	case m.File != "":
		b.WriteString(m.File + ": ")
	}
	if m.Key != "" {
		b.WriteString(m.Key + ": ")
	}
	return b.String() + m.Err.Error()
}

// Unwrap returns the cause.
func (m *Mistake) Unwrap() error { return m.Err }

// mistake returns a mistake at a key of the file.
func (f *File) mistake(key string, err error) error {
	return &Mistake{File: f.name, Line: f.lines[key], Key: key, Err: err}
}

// UsersMistake returns a mistake at the key users.
func (f *File) UsersMistake(err error) error { return f.mistake("users", err) }

// ShareMistake returns a mistake at the share i of the file.
func (f *File) ShareMistake(i int, err error) error {
	m := &Mistake{File: f.name, Err: err}
	if len(f.tables) == len(f.Shares) { // shares can stand in one line
		m.Line = f.tables[i]
	}
	return m
}

// MistakeAt returns a mistake at the first of the keys that the file has and that given does not report; without
// one, at the first key on the command line. f may be nil.
func (f *File) MistakeAt(err error, given func(key string) bool, keys ...string) error {
	for _, key := range keys {
		if f.Has(key) && !given(key) {
			return f.mistake(key, err)
		}
	}
	return &Mistake{Key: keys[0], Err: err}
}

// contradiction is a rule between settings that a server breaks. keys begin with the one to change.
type contradiction struct {
	broken bool
	keys   []string
	text   string
}

// Check returns a *Mistake for each contradiction between the settings o of a server, joined. f is the file with
// which they were made, or nil; given reports the flags of the command line.
func (f *File) Check(o *Options, given func(key string) bool) error {
	var all []error
	for _, c := range slices.Concat(contradictionsOfAddresses(o), contradictionsOfLimits(o)) {
		if c.broken {
			all = append(all, f.MistakeAt(errors.New(c.text), given, c.keys...))
		}
	}
	if f != nil && o.Encryption == server.EncryptionOff.String() {
		for i, s := range f.Shares {
			if s.Encryption.Required() {
				all = append(all, f.ShareMistake(i, fmt.Errorf("share %q requires encryption, and encryption of the server is off: no client could use it", s.Name)))
			}
		}
	}
	return errors.Join(all...)
}

// contradictionsOfAddresses are the rules of addresses, providers and protection.
func contradictionsOfAddresses(o *Options) []contradiction {
	weak := o.Encryption != "" && o.Encryption != server.EncryptionRequired.String() && !o.InsecureNetwork
	hasAddresses := slices.ContainsFunc(o.Providers, func(name string) bool { return name != "shm" })
	return []contradiction{
		{o.Listen == "", []string{"listen"}, "no address and port, as in 127.0.0.1:4450"},
		{
			weak && !IsLoopback(o.Listen), []string{"encryption", "listen"},
			fmt.Sprintf("%s: an address that is not loopback needs encryption, or --insecure-network: listen %s", o.Encryption, o.Listen),
		},
		{
			weak && IsLoopback(o.Listen) && !o.Loopback(), []string{"encryption", "rdma-listen"},
			fmt.Sprintf("%s: an address that is not loopback needs encryption, or --insecure-network: rdma-listen %s", o.Encryption, strings.Join(o.RDMAListen, ",")),
		},
		{len(o.RDMAListen) > 0 && !hasAddresses, []string{"rdma-listen", "provider"}, "no RDMA provider with addresses is in provider"},
		{o.ImmediateData && len(o.Providers) == 0, []string{"immediate-data", "provider"}, "there is no RDMA without a provider"},
		{
			o.Metrics != "" && o.Metrics == o.Listen && !strings.HasSuffix(o.Listen, ":0"), []string{"metrics", "listen"},
			"listen has the same address",
		},
		{o.Realm != "" && o.Keytab == "", []string{"realm"}, "it needs keytab"},
		{o.RequireKerberos && o.Keytab == "", []string{"require-kerberos"}, "it needs keytab"},
		{o.State != "" && o.DurableTimeout == 0, []string{"state", "durable-timeout"}, "with durable-timeout 0s no open file outlives the server"},
	}
}

// contradictionsOfLimits are the rules between limits.
func contradictionsOfLimits(o *Options) []contradiction {
	return []contradiction{
		{o.ByteBurst > 0 && o.ByteRate == 0, []string{"byte-burst"}, "it needs byte-rate"},
		{o.Credits > o.MaxCredits, []string{"credits", "max-credits"}, "it is at most max-credits"},
		{o.MaxWriteByReference < o.MaxWrite, []string{"max-write-by-reference", "max-write"}, "it is at least max-write"},
		{o.WriteMemory < o.MaxWrite, []string{"write-memory", "max-write"}, "it is at least max-write"},
		{o.ReadMemory < 4*o.MaxRead, []string{"read-memory", "max-read"}, "it is at least 4 times max-read"},
	}
}
