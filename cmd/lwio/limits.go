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
	requestRate, authFailures, userConnections          int
	smbMemory, readMemory, writeMemory                  string
	byteRate, byteBurst                                 string
}

func (o *limitOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	few := ", or fewer if the process may open few files"
	f.IntVar(&o.smbConnections, "smb-connections", 0, fmt.Sprintf("SMB connections at a time (default %d%s)", server.DefaultSMBConnections, few))
	f.IntVar(&o.connections, "connections", 0, fmt.Sprintf("RDMA connections at a time (default %d%s)", server.DefaultConnections, few))
	f.IntVar(&o.unauthenticated, "unauthenticated", server.DefaultUnauthenticated, "RDMA connections at a time that have not authenticated; a further one evicts another")
	f.IntVar(&o.files, "files", 0, fmt.Sprintf("files open at a time, of which a user may have three quarters (default %d%s)", vfs.DefaultMaxOpens, few))
	f.StringVar(&o.smbMemory, "smb-memory", bench.FormatSize(server.DefaultSMBMemory), "memory for SMB messages")
	f.StringVar(&o.readMemory, "read-memory", bench.FormatSize(server.DefaultReadBufferBytes), "memory of each RDMA provider for reads that do not come straight from the page cache")
	f.StringVar(&o.writeMemory, "write-memory", bench.FormatSize(server.DefaultCreditBudget*server.DefaultMaxRecvBufferSize), "memory for messages of RDMA clients")
	f.IntVar(&o.requestRate, "request-rate", 0, "requests a second that each user may make, over SMB and RDMA together, at least 100 (default unlimited)")
	f.StringVar(&o.byteRate, "byte-rate", "", "bytes a second that each user may read and write, over SMB and RDMA together, at least 1m (default unlimited)")
	f.StringVar(&o.byteBurst, "byte-burst", "", "bytes that may pass at once (default the bytes of a tenth of a second)")
	f.IntVar(&o.userConnections, "user-connections", 0, "RDMA connections at a time of each user (default all but a sixty-fourth of --connections)")
	f.IntVar(&o.authFailures, "auth-failures", server.DefaultAuthFailures, "wrong passwords a minute for a user from one address, above which attempts are refused; -1 for no limit")
}

// limits checks the flags.
func (o *limitOptions) limits() (server.Limits, error) {
	l := server.Limits{
		SMBConnections: o.smbConnections, Connections: o.connections, Unauthenticated: o.unauthenticated,
		RequestRate: o.requestRate, AuthFailures: o.authFailures, ConnectionsPerUser: o.userConnections,
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"smb-connections", o.smbConnections}, {"connections", o.connections}, {"unauthenticated", o.unauthenticated},
		{"files", o.files}, {"request-rate", o.requestRate}, {"user-connections", o.userConnections},
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
