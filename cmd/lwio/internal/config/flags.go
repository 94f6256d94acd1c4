package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Flags are the keys that are flags of serve, with their names. A key that the file does not have has a zero
// value.
type Flags struct {
	Listen          Address          `toml:"listen"`
	RDMAListen      []RDMAAddress    `toml:"rdma-listen"`
	Provider        []string         `toml:"provider"`
	ReadOnly        bool             `toml:"read-only"`
	AllowMD5        bool             `toml:"allow-md5"`
	Encryption      ServerEncryption `toml:"encryption"`
	InsecureNetwork bool             `toml:"insecure-network"`
	Metrics         Address          `toml:"metrics"`
	Audit           string           `toml:"audit"` // a path, or "-"
	DurableTimeout  Duration         `toml:"durable-timeout"`
	KeepAlive       Duration         `toml:"keep-alive"`
	State           string           `toml:"state"` // a path

	Keytab          string `toml:"keytab"` // a path
	Realm           string `toml:"realm"`
	RequireKerberos bool   `toml:"require-kerberos"`

	SMBConnections  Number `toml:"smb-connections"`
	Connections     Number `toml:"connections"`
	Unauthenticated Number `toml:"unauthenticated"`
	Files           Number `toml:"files"`
	Orphans         Number `toml:"orphans"`
	SMBMemory       Size   `toml:"smb-memory"`
	ReadMemory      Size   `toml:"read-memory"`
	WriteMemory     Size   `toml:"write-memory"`
	RequestRate     Number `toml:"request-rate"`
	ByteRate        Size   `toml:"byte-rate"`
	ByteBurst       Size   `toml:"byte-burst"`
	UserConnections Number `toml:"user-connections"`
	AuthFailures    Number `toml:"auth-failures"`

	AllowUID []string `toml:"allow-uid"`
	NoCRC    bool     `toml:"no-crc"`
	Verbose  bool     `toml:"verbose"`
}

// Keys returns the names of all keys of Flags.
func Keys() (keys []string) {
	for f := range reflect.TypeFor[Flags]().Fields() {
		keys = append(keys, f.Tag.Get("toml"))
	}
	return keys
}

// Settings returns the keys that the file has, with their values as the flags take them.
func (f *Flags) Settings() map[string]string {
	list := make(map[string]string)
	for field, v := range reflect.ValueOf(*f).Fields() {
		if !v.IsZero() {
			list[field.Tag.Get("toml")] = text(v.Interface())
		}
	}
	return list
}

// text returns a value as a flag takes it.
func text(v any) string {
	switch v := v.(type) {
	case []string:
		return strings.Join(v, ",")
	case []RDMAAddress:
		var all []string
		for _, a := range v {
			all = append(all, a.text)
		}
		return strings.Join(all, ",")
	}
	return fmt.Sprint(v)
}

// Restart returns the keys whose values differ between two files, which take effect at the start of a
// server only, without those of shares.
func (f *Flags) Restart(next *Flags) (keys []string) {
	old, now := f.Settings(), next.Settings()
	for key, value := range old {
		if v, ok := now[key]; !ok || v != value {
			keys = append(keys, key)
		}
		delete(now, key)
	}
	return slices.Sorted(slices.Values(slices.AppendSeq(keys, maps.Keys(now))))
}

// within makes paths relative to the directory of the file.
func (f *Flags) within(dir string) {
	for _, path := range []*string{&f.Keytab, &f.State, &f.Audit} {
		if *path != "" && *path != "-" {
			*path = within(dir, *path)
		}
	}
}

// Address is a host and a port, or "".
type Address struct{ text string }

// UnmarshalText checks the address. Its error gets the position in the file.
func (a *Address) UnmarshalText(text []byte) error {
	a.text = string(text)
	_, _, err := net.SplitHostPort(a.text)
	return err
}

// String returns the address as the file spells it.
func (a Address) String() string { return a.text }

// RDMAAddress is an IP address and a port.
type RDMAAddress struct{ text string }

// UnmarshalText checks the address. Its error gets the position in the file.
func (a *RDMAAddress) UnmarshalText(text []byte) error {
	a.text = string(text)
	_, err := netip.ParseAddrPort(a.text)
	return err
}

// ServerEncryption is the encryption of a server, or "".
type ServerEncryption struct{ word string }

// UnmarshalText checks the word. Its error gets the position in the file.
func (e *ServerEncryption) UnmarshalText(text []byte) error {
	switch e.word = string(text); e.word {
	case "off", "offered", "required":
		return nil
	default:
		return errors.New("encryption of the server is \"off\", \"offered\" or \"required\"")
	}
}

// String returns the word.
func (e ServerEncryption) String() string { return e.word }

// Duration is a time, such as "90s", or "".
type Duration struct{ text string }

// UnmarshalText checks the time. Its error gets the position in the file.
func (d *Duration) UnmarshalText(text []byte) error {
	d.text = string(text)
	if n, err := time.ParseDuration(d.text); err != nil || n < 0 {
		return errors.New("a time is a number with a unit, as in \"90s\", \"5m\" or \"0s\"")
	}
	return nil
}

// String returns the time as the file spells it.
func (d Duration) String() string { return d.text }

// Number is an integer, or "".
type Number struct{ text string }

// UnmarshalText checks the number. Its error gets the position in the file.
func (n *Number) UnmarshalText(text []byte) error {
	n.text = string(text)
	if _, err := strconv.Atoi(n.text); err != nil {
		return errors.New("not an integer")
	}
	return nil
}

// String returns the number as the file spells it.
func (n Number) String() string { return n.text }

// Size is a number of bytes, such as "64m", or "".
type Size struct{ text string }

// sizes are the sizes that flags take.
var sizes = regexp.MustCompile(`(?i)^[0-9]+(b|[kmgt](i?b)?)?$`)

// UnmarshalText checks the size. Its error gets the position in the file.
func (s *Size) UnmarshalText(text []byte) error {
	if s.text = string(text); !sizes.MatchString(s.text) {
		return errors.New("a size is a number of bytes, or of \"k\", \"m\" or \"g\", as in \"64m\"")
	}
	return nil
}

// String returns the size as the file spells it.
func (s Size) String() string { return s.text }
