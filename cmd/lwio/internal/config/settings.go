package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lwio/cmd/lwio/internal/bench"
	"lwio/server"
	"lwio/vfs"
)

// Setting describes a setting of a server: a flag of serve and a key of the configuration file.
type Setting struct {
	// Key is the name of both.
	Key string
	// Help describes the setting in a few words.
	Help string
	// Default is the default as the flag takes it; "" for the zero value. Otherwise describes a default that
	// depends on the machine or on other settings.
	Default, Otherwise string
	// Zero is the meaning of 0, where Min does not cover it; "" for none.
	Zero string
	// Min and Max bound a number, a size in bytes, or a time in nanoseconds. Step divides a size. 0 is no bound.
	Min, Max, Step int64
	// Reload is the effect of a change at SIGHUP; "" for a setting whose change needs a restart.
	Reload string
	// Shared is a flag of every command.
	Shared bool

	value func(*Options) pflag.Value
}

// Words for defaults.
const (
	fewFiles = ", or fewer if the process may open few files"
	theUsual = "the default"
)

// settings is the table of all settings. Flags, keys, the effect of SIGHUP and the table of docs/use/config.md
// are made from it.
var settings = []Setting{
	{
		Key: "listen", Default: "127.0.0.1:4450", Help: "address and port; port 0 means any free port",
		value: func(o *Options) pflag.Value { return (*addressValue)(&o.Listen) },
	},
	{
		Key: "rdma-listen", Otherwise: "the address of listen and a free port",
		Help:  "addresses and ports of RDMA, which clients learn",
		value: func(o *Options) pflag.Value { return (*addressList)(&o.RDMAListen) },
	},
	{
		Key: "provider", Help: "RDMA providers, best first; 'none' for SMB alone",
		value: func(o *Options) pflag.Value { return (*ProviderList)(&o.Providers) },
	},
	{
		Key: "server-name", Otherwise: "the name of the host", Help: "name of the server that clients see, of up to 256 characters",
		value: func(o *Options) pflag.Value { return (*textValue)(&o.ServerName) },
	},
	{
		Key: "read-only", Help: "refuse every change", Reload: "open files lose the right to write",
		value: func(o *Options) pflag.Value { return (*switchValue)(&o.ReadOnly) },
	},
	{
		Key: "encryption", Otherwise: "offered on loopback, else required", Help: "encryption of SMB and RDMA: off, offered (each client chooses) or required",
		value: func(o *Options) pflag.Value {
			return wordValue{&o.Encryption, []string{server.EncryptionOff.String(), server.EncryptionOffered.String(), server.EncryptionRequired.String()}}
		},
	},
	{
		Key: "leases", Default: server.LeasesAll.String(),
		Help: "leases, under which clients of SMB cache: all, files (no listings) or off; programs on this host break none",
		value: func(o *Options) pflag.Value {
			return wordValue{&o.Leases, []string{server.LeasesAll.String(), server.LeasesOfFiles.String(), server.LeasesOff.String()}}
		},
	},
	{
		Key: "insecure-network", Help: "do not require encryption on an address that is not loopback: others on the network can read data, and change data of RDMA",
		value: func(o *Options) pflag.Value { return (*switchValue)(&o.InsecureNetwork) },
	},
	{
		Key: "allow-md5", Help: "accept clients that sign with unkeyed MD5 only (no protection)",
		value: func(o *Options) pflag.Value { return (*switchValue)(&o.AllowMD5) },
	},
	{
		Key: "keytab", Help: "keytab with the keys of the service cifs/HOST: offer Kerberos",
		Reload: "the keys are read again, from another file too; Kerberos begins and ends with a restart only",
		value:  func(o *Options) pflag.Value { return (*pathValue)(&o.Keytab) },
	},
	{
		Key: "realm", Otherwise: "the realm of the keytab", Help: "Kerberos realm of the users",
		value: func(o *Options) pflag.Value { return (*textValue)(&o.Realm) },
	},
	{
		Key: "require-kerberos", Help: "refuse NTLM, so that users need no password on the server",
		value: func(o *Options) pflag.Value { return (*switchValue)(&o.RequireKerberos) },
	},
	{
		Key: "metrics", Help: "address and port for Prometheus, at /metrics, and for probes, at /livez and /readyz; it shows names of users and addresses of clients, without a password",
		value: func(o *Options) pflag.Value { return (*addressValue)(&o.Metrics) },
	},
	{
		Key: "audit", Help: "file for the audit log, in JSON: logons, refusals, opens and changes of files; '-' is the standard error",
		Reload: "the file is opened again, another file too; the log begins and ends with a restart only",
		value:  func(o *Options) pflag.Value { return (*pathValue)(&o.Audit) },
	},
	{
		Key: "state", Help: "directory in which the opens and locks of clients outlive the death and a restart of the server (not of the host)",
		value: func(o *Options) pflag.Value { return (*pathValue)(&o.State) },
	},
	{
		Key: "verbose", Help: "log to standard error", Shared: true, Reload: "at once",
		value: func(o *Options) pflag.Value { return (*switchValue)(&o.Verbose) },
	},
	{
		Key: "durable-timeout", Default: server.DefaultDurableTimeout.String(), Zero: "they end with it",
		Help:  "most time for which open files and locks wait for a client that has lost the connection",
		value: func(o *Options) pflag.Value { return (*timeValue)(&o.DurableTimeout) },
	},
	{
		Key: "keep-alive", Default: server.DefaultKeepAlive.String(), Zero: "no check", Min: int64(time.Second),
		Help:  "time after which the SMB connection of a client that does not respond ends",
		value: func(o *Options) pflag.Value { return (*timeValue)(&o.KeepAlive) },
	},
	{
		Key: "auth-timeout", Default: server.DefaultAuthTimeout.String(), Min: int64(100 * time.Millisecond), Max: int64(time.Hour),
		Help:  "most time from an RDMA connection to its authentication",
		value: func(o *Options) pflag.Value { return (*timeValue)(&o.AuthTimeout) },
	},
	{
		Key: "stall-timeout", Default: server.DefaultStallTimeout.String(), Min: int64(time.Second), Max: int64(time.Hour),
		Help:  "time for which a client may leave its answers over RDMA unreceived; then its connection is cut",
		value: func(o *Options) pflag.Value { return (*timeValue)(&o.StallTimeout) },
	},
	{
		Key: "busy-poll", Default: server.DefaultBusyPoll.String(), Zero: "no polling", Max: int64(time.Second),
		Help:  "time for which an RDMA connection polls for requests before it sleeps; at most half of the processors poll",
		value: func(o *Options) pflag.Value { return (*timeValue)(&o.BusyPoll) },
	},
	{
		Key: "smb-connections", Zero: theUsual, Otherwise: fmt.Sprint(server.DefaultSMBConnections, fewFiles), Max: 1 << 20,
		Help:  "limit of SMB connections",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.SMBConnections) },
	},
	{
		Key: "connections", Zero: theUsual, Otherwise: fmt.Sprint(server.DefaultConnections, fewFiles), Max: 1 << 20,
		Help:  "limit of RDMA connections",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.Connections) },
	},
	{
		Key: "unauthenticated", Default: fmt.Sprint(server.DefaultUnauthenticated), Zero: theUsual, Max: 1 << 20,
		Help:  "limit of RDMA connections before authentication; a further one evicts another",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.Unauthenticated) },
	},
	{
		Key: "user-connections", Zero: theUsual, Otherwise: "all but 1/64 of connections, and of smb-connections", Max: 1 << 20,
		Help:  "limit of RDMA connections of each user, and of SMB connections of each user",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.UserConnections) },
	},
	{
		Key: "session-connections", Default: fmt.Sprint(server.DefaultConnectionsPerKey), Min: 1, Max: 1 << 20,
		Help:  "limit of RDMA connections of one negotiation: of one session of a client",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.SessionConnections) },
	},
	{
		Key: "files", Zero: theUsual, Otherwise: fmt.Sprint(vfs.DefaultMaxOpens, fewFiles),
		Help:  "limit of open files; one user may have three quarters of it",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.Files) },
	},
	{
		Key: "connection-files", Default: fmt.Sprint(server.DefaultFilesPerConnection), Min: 1, Max: server.MaxFilesPerConnection,
		Help:  "limit of files registered on each RDMA connection",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.ConnectionFiles) },
	},
	{
		Key: "registrations", Default: fmt.Sprint(server.DefaultRegistrations), Min: 1, Max: 1 << 30,
		Help:  "limit of registered files of all RDMA connections; one user may have three quarters of it",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.Registrations) },
	},
	{
		Key: "orphans", Default: fmt.Sprint(server.DefaultOrphans), Zero: theUsual,
		Help:  "limit of open files whose clients have lost the connection; one user may have three quarters of it",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.Orphans) },
	},
	{
		Key: "credits", Default: fmt.Sprint(server.DefaultCredits), Min: 1, Max: server.MaxCredits,
		Help:  "limit of requests in flight of a new RDMA connection",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.Credits) },
	},
	{
		Key: "max-credits", Default: fmt.Sprint(server.DefaultMaxCredits), Min: 1, Max: server.MaxCredits,
		Help:  "limit of requests in flight of an RDMA connection that asks for more",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.MaxCredits) },
	},
	{
		Key: "workers", Zero: theUsual, Otherwise: "4 for each processor, at least 8", Max: 1 << 16,
		Help:  "limit of goroutines for the reads of one file that wait for a disk, and of those for its writes; 32 times as many for all files",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.Workers) },
	},
	{
		Key: "smb-memory", Default: bench.FormatSize(server.DefaultSMBMemory), Min: server.MinSMBMemory,
		Help:  "limit of the memory for SMB messages and sessions, beside 64 KiB for each connection",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.SMBMemory) },
	},
	{
		Key: "read-memory", Default: bench.FormatSize(server.DefaultReadBufferBytes), Min: 4 * server.MinRDMAWindowSize, Max: 1 << 40,
		Help:  "limit of the memory of each RDMA provider for reads that are not sent from the page cache directly; at least 4 times max-read",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.ReadMemory) },
	},
	{
		Key: "write-memory", Default: bench.FormatSize(server.DefaultCreditBudget * server.DefaultMaxRecvBufferSize), Min: server.MinRecvBufferSize, Max: 1 << 40,
		Help:  "limit of the memory for messages of RDMA clients",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.WriteMemory) },
	},
	{
		Key: "max-read", Default: bench.FormatSize(server.DefaultMaxRDMAWindowSize), Min: server.MinRDMAWindowSize, Max: server.MaxRDMAWindowSize, Step: 4 << 10,
		Help:  "limit of the data of one read over RDMA",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.MaxRead) },
	},
	{
		Key: "max-write", Default: bench.FormatSize(server.DefaultMaxRecvBufferSize), Min: server.MinRecvBufferSize, Max: server.MaxRecvBufferSize, Step: 4 << 10,
		Help:  "limit of the data of one write over RDMA",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.MaxWrite) },
	},
	{
		Key: "max-write-by-reference", Default: bench.FormatSize(server.DefaultMaxByReferenceSize), Min: server.MinRecvBufferSize, Max: server.MaxRecvBufferSize, Step: 4 << 10,
		Help:  "max-write over shared memory, where data stays in the memory of the client",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.MaxWriteByReference) },
	},
	{
		Key: "request-rate", Zero: "no limit", Min: server.MinRequestRate,
		Help:  "limit of requests per second of each user, over SMB and RDMA together",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.RequestRate) },
	},
	{
		Key: "byte-rate", Otherwise: "no limit", Zero: "no limit", Min: server.MinByteRate,
		Help:  "limit of bytes per second of each user, over SMB and RDMA together",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.ByteRate) },
	},
	{
		Key: "byte-burst", Otherwise: "the bytes of a tenth of a second", Zero: theUsual,
		Help:  "bytes that pass without a wait",
		value: func(o *Options) pflag.Value { return (*sizeValue)(&o.ByteBurst) },
	},
	{
		Key: "auth-failures", Default: fmt.Sprint(server.DefaultAuthFailures), Zero: theUsual, Min: -1,
		Help:  "limit of wrong passwords per minute for a user from one address; further attempts are refused; -1 for no limit",
		value: func(o *Options) pflag.Value { return (*numberValue)(&o.AuthFailures) },
	},
	{
		Key: "immediate-data", Help: "complete reads by immediate data of their last RDMA write where the provider has that",
		value: func(o *Options) pflag.Value { return (*switchValue)(&o.ImmediateData) },
	},
	{
		Key: "allow-uid", Shared: true, Help: "numeric users to share memory with, in addition to this user and root; or 'any'",
		value: func(o *Options) pflag.Value { return &o.AllowUID },
	},
	{
		Key: "no-crc", Shared: true, Help: "iWARP without CRCs, if both sides say so; then only TCP's checksum protects the data",
		value: func(o *Options) pflag.Value { return (*switchValue)(&o.NoCRC) },
	},
}

// Settings returns the table of settings. The documents have the same order.
func Settings() []Setting { return slices.Clone(settings) }

// Value returns the text of the setting in o, as the flag takes it.
func (s *Setting) Value(o *Options) string { return s.value(o).String() }

// Set sets the setting in o from the text of a flag, and checks its bounds.
func (s *Setting) Set(o *Options, text string) error { return bounded{s, s.value(o)}.Set(text) }

// Type is the name of the values of the setting.
func (s *Setting) Type() string { return s.value(new(Options)).Type() }

// bounded is a value that keeps the bounds of its setting.
type bounded struct {
	*Setting
	pflag.Value
}

// Set sets the value, and checks it.
func (b bounded) Set(text string) error {
	if err := b.Value.Set(text); err != nil {
		return err
	}
	v, ok := b.Value.(amount)
	if !ok {
		return nil
	}
	n, least, most := v.amount(), b.Min, cmp.Or(b.Max, math.MaxInt64)
	switch {
	case n == 0 && b.Zero != "":
		return nil
	case n < least && b.Zero != "" && least > 0:
		return fmt.Errorf("it is at least %s, or 0 (%s)", v.format(least), b.Zero)
	case n < least && least == 0:
		return fmt.Errorf("it must not be negative")
	case n < least:
		return fmt.Errorf("it is at least %s", v.format(least))
	case n > most:
		return fmt.Errorf("it is at most %s", v.format(most))
	case b.Step > 0 && n%b.Step != 0:
		return fmt.Errorf("it is a multiple of %s", v.format(b.Step))
	}
	return nil
}

// String returns the text of the value.
func (b bounded) String() string { return b.Value.String() }

// Type is the name of the value in the help.
func (b bounded) Type() string { return b.Value.Type() }

// Defaults returns the defaults. providers are the names of all providers, by preference.
func Defaults(providers []string) Options {
	var o Options
	for _, s := range settings {
		if s.Default == "" {
			continue
		}
		if err := s.Set(&o, s.Default); err != nil {
			panic(fmt.Sprintf("default of %s: %v", s.Key, err)) // a test covers each
		}
	}
	o.Providers = slices.Clone(providers)
	return o
}

// Register adds flags for the settings in o, whose values are the defaults: the shared ones, or all others.
func Register(f *pflag.FlagSet, o *Options, shared bool) {
	for i := range settings {
		s := &settings[i]
		if s.Shared != shared {
			continue
		}
		flag := f.VarPF(bounded{s, s.value(o)}, s.Key, map[string]string{"verbose": "v"}[s.Key], s.help())
		if _, ok := s.value(o).(*switchValue); ok {
			flag.NoOptDefVal = "true"
		}
	}
}

// help is the text of the flag.
func (s *Setting) help() string {
	text := s.Help
	if s.Zero != "" && s.Zero != theUsual && s.Otherwise == "" {
		text += "; 0: " + s.Zero
	}
	if s.Otherwise != "" {
		text += " (default: " + s.Otherwise + ")"
	}
	return text
}

// Changed returns the keys of the settings that differ.
func Changed(a, b *Options) (keys []string) {
	for _, s := range settings {
		if s.Value(a) != s.Value(b) {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// Markdown returns the table of settings for docs/use/config.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| key and flag | value | default | effect | at SIGHUP |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Key, s.unit(), s.defaultText(), s.Help, cmp.Or(s.Reload, "restart"))
	}
	return b.String()
}

// defaultText is the default in the documents.
func (s *Setting) defaultText() string {
	switch text := cmp.Or(s.Otherwise, s.Default); {
	case text != "":
		return text
	case s.Key == "provider":
		return "all"
	case s.Type() == "bool":
		return "false"
	case s.Zero != "":
		return s.Zero
	}
	return "none"
}

// unit is the value in the documents: its kind and its bounds.
func (s *Setting) unit() string {
	text := map[string]string{
		"bool": "`true` or `false`", "int": "integer", "time": "time, as `\"90s\"`", "size": "size, as `\"64m\"`", "text": "text", "path": "path",
		"address": "host and port", "addresses": "list of IP addresses with ports", "providers": "list of names", "uids": "list of numbers in quotation marks",
		"word": "word",
	}[s.Type()]
	v, ok := s.value(new(Options)).(amount)
	if !ok {
		return text
	}
	if s.Min != 0 {
		text += ", at least " + v.format(s.Min)
	}
	if s.Max != 0 {
		text += ", at most " + v.format(s.Max)
	}
	if s.Step != 0 {
		text += ", a multiple of " + v.format(s.Step)
	}
	if s.Zero != "" && s.Type() != "size" {
		text += "; 0: " + s.Zero
	}
	return text
}
