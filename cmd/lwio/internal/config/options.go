package config

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options are the values of the settings of a server. Sizes are in bytes. Zero values stand for the defaults
// of package server where the table of settings says so.
type Options struct {
	Listen     string
	RDMAListen []string // IP addresses with ports
	Providers  []string // by preference; none for SMB alone
	ServerName string
	ReadOnly   bool

	Encryption string // off, offered, required, or "" for a choice by the addresses
	Leases     string // all, files, off, or "" for all
	// InsecureNetwork permits less than required encryption on addresses that are not loopback.
	InsecureNetwork, AllowMD5 bool

	Keytab, Realm   string
	RequireKerberos bool

	Metrics, Audit, State string
	Verbose               bool

	DurableTimeout, KeepAlive, AuthTimeout, StallTimeout, BusyPoll time.Duration

	SMBConnections, Connections, Unauthenticated, UserConnections, SessionConnections int
	Files, ConnectionFiles, Registrations, Orphans                                    int
	Credits, MaxCredits, Workers                                                      int
	SMBMemory, ReadMemory, WriteMemory                                                int64
	MaxRead, MaxWrite, MaxWriteByReference                                            int64
	RequestRate, AuthFailures                                                         int
	ByteRate, ByteBurst                                                               int64
	ImmediateData, NoCRC                                                              bool

	AllowUID UIDs
}

// Loopback reports whether the server listens at loopback addresses only.
func (o *Options) Loopback() bool {
	return !slices.ContainsFunc(append([]string{o.Listen}, o.RDMAListen...), func(at string) bool { return !IsLoopback(at) })
}

// IsLoopback reports whether an address with a port is one of loopback. A name other than localhost is none.
func IsLoopback(at string) bool {
	host, _, err := net.SplitHostPort(at)
	if a, e := netip.ParseAddr(host); e == nil {
		return a.IsLoopback()
	}
	return err == nil && host == "localhost"
}

// UIDs are numeric users, or any user. The kernel reports the user of a peer.
type UIDs struct {
	any  bool
	list []uint32
}

// Allows reports whether a process of that user may be a peer over shared memory. By default only root and the
// user of this process may.
func (u *UIDs) Allows(uid uint32) bool {
	return u.any || uid == 0 || uid == uint32(os.Geteuid()) || slices.Contains(u.list, uid)
}

// Set takes numbers separated by commas, or "any".
func (u *UIDs) Set(text string) error {
	*u = UIDs{any: text == "any"}
	if u.any || text == "" {
		return nil
	}
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return err
		}
		u.list = append(u.list, uint32(n))
	}
	return nil
}

// String returns the users as Set takes them.
func (u *UIDs) String() string {
	if u.any {
		return "any"
	}
	var words []string
	for _, n := range u.list {
		words = append(words, strconv.FormatUint(uint64(n), 10))
	}
	return strings.Join(words, ",")
}

// Type is the name of the value in the help.
func (u *UIDs) Type() string { return "uids" }
