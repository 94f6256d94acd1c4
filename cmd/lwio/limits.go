package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lwio/cmd/lwio/internal/bench"
	"lwio/server"
	"lwio/vfs"
)

// limitOptions are the flags of serve that bound the resources of clients.
type limitOptions struct {
	smbConnections, connections, unauthenticated, files int
	requestRate, authFailures, userConnections, orphans int
	smbMemory, readMemory, writeMemory                  string
	byteRate, byteBurst                                 string
}

func (o *limitOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	few := ", or fewer if the process may open few files"
	f.IntVar(&o.smbConnections, "smb-connections", 0, fmt.Sprintf("limit of SMB connections (default %d%s)", server.DefaultSMBConnections, few))
	f.IntVar(&o.connections, "connections", 0, fmt.Sprintf("limit of RDMA connections (default %d%s)", server.DefaultConnections, few))
	f.IntVar(&o.unauthenticated, "unauthenticated", server.DefaultUnauthenticated, "limit of RDMA connections before authentication; a further one evicts another")
	f.IntVar(&o.files, "files", 0, fmt.Sprintf("limit of open files; one user may have three quarters of it (default %d%s)", vfs.DefaultMaxOpens, few))
	f.IntVar(&o.orphans, "orphans", server.DefaultOrphans, "limit of open files whose clients have lost the connection; one user may have three quarters of it")
	f.StringVar(&o.smbMemory, "smb-memory", bench.FormatSize(server.DefaultSMBMemory), "limit of the memory for SMB messages and sessions, beside 64 KiB for each connection")
	f.StringVar(&o.readMemory, "read-memory", bench.FormatSize(server.DefaultReadBufferBytes), "limit of the memory of each RDMA provider for reads that are not sent from the page cache directly")
	f.StringVar(&o.writeMemory, "write-memory", bench.FormatSize(server.DefaultCreditBudget*server.DefaultMaxRecvBufferSize), "limit of the memory for messages of RDMA clients")
	f.IntVar(&o.requestRate, "request-rate", 0, "limit of requests per second of each user, over SMB and RDMA together; at least 100 (default unlimited)")
	f.StringVar(&o.byteRate, "byte-rate", "", "limit of bytes per second of each user, over SMB and RDMA together; at least 1m (default unlimited)")
	f.StringVar(&o.byteBurst, "byte-burst", "", "bytes that pass without a wait (default the bytes of a tenth of a second)")
	f.IntVar(&o.userConnections, "user-connections", 0, "limit of RDMA connections of each user, and of SMB connections of each user (default all but 1/64 of --connections, and of --smb-connections)")
	f.IntVar(&o.authFailures, "auth-failures", server.DefaultAuthFailures, "limit of wrong passwords per minute for a user from one address; further attempts are refused; -1 for no limit")
}

// limits checks the flags.
func (o *limitOptions) limits() (server.Limits, error) {
	l := server.Limits{
		SMBConnections: o.smbConnections, Connections: o.connections, Unauthenticated: o.unauthenticated,
		RequestRate: o.requestRate, AuthFailures: o.authFailures, ConnectionsPerUser: o.userConnections, Orphans: o.orphans,
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"smb-connections", o.smbConnections}, {"connections", o.connections}, {"unauthenticated", o.unauthenticated},
		{"files", o.files}, {"request-rate", o.requestRate}, {"user-connections", o.userConnections}, {"orphans", o.orphans},
	} {
		if n.value < 0 {
			return l, usagef("--%s %d: it must not be negative", n.flag, n.value)
		}
	}
	var err error
	size := func(flag, s string) int64 {
		if s == "" {
			return 0
		}
		n, e := bench.ParseSize(s)
		if e != nil && err == nil {
			err = usagef("--%s: %w", flag, e)
		}
		return n
	}
	atLeast := func(flag, s string, least int64) int64 {
		n := size(flag, s)
		if s != "" && n < least && err == nil {
			err = usagef("--%s %s: it is at least %s", flag, s, bench.FormatSize(least))
		}
		return n
	}
	l.SMBMemory = atLeast("smb-memory", o.smbMemory, server.MinSMBMemory)
	l.ReadBufferBytes = int(atLeast("read-memory", o.readMemory, server.MinReadBufferBytes))
	l.CreditBudget = int(atLeast("write-memory", o.writeMemory, server.DefaultMaxRecvBufferSize) / server.DefaultMaxRecvBufferSize)
	l.ByteRate, l.ByteBurst = atLeast("byte-rate", o.byteRate, server.MinByteRate), size("byte-burst", o.byteBurst)
	switch {
	case err != nil:
	case o.requestRate > 0 && o.requestRate < server.MinRequestRate:
		err = usagef("--request-rate %d: it is at least %d", o.requestRate, server.MinRequestRate)
	case l.ByteBurst > 0 && l.ByteRate == 0:
		err = usagef("--byte-burst needs --byte-rate")
	}
	return l, err
}
