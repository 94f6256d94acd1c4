package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lwio/server"
)

// The flags arrive in the limits, and values without a meaning are usage errors.
func TestLimitFlagsReachTheServer(t *testing.T) {
	for _, r := range []struct {
		args string
		want server.Limits
		bad  string
	}{
		{"", server.Limits{
			Unauthenticated: server.DefaultUnauthenticated, SMBMemory: 256 << 20, ReadBufferBytes: 64 << 20,
			CreditBudget: server.DefaultCreditBudget, AuthFailures: 10, Orphans: server.DefaultOrphans,
		}, ""},
		{
			"--smb-connections 1 --connections 2 --unauthenticated 3 --smb-memory 16m --read-memory 8m --write-memory 1m --request-rate 200 --auth-failures -1 --byte-rate 100m --byte-burst 1m --user-connections 5 --orphans 6",
			server.Limits{
				SMBConnections: 1, Connections: 2, Unauthenticated: 3, SMBMemory: 16 << 20, ReadBufferBytes: 8 << 20, CreditBudget: 16,
				RequestRate: 200, AuthFailures: -1, ByteRate: 100 << 20, ByteBurst: 1 << 20, ConnectionsPerUser: 5,
				Orphans: 6,
			}, "",
		},
		{"--connections -1", server.Limits{}, "--connections"},
		{"--user-connections -1", server.Limits{}, "--user-connections"},
		{"--byte-rate fast", server.Limits{}, "--byte-rate"},
		{"--orphans -1", server.Limits{}, "--orphans"},
		{"--files -1", server.Limits{}, "--files"},
		{"--smb-memory much", server.Limits{}, "--smb-memory"},
		{"--write-memory 0", server.Limits{}, "--write-memory"},
		{"--write-memory 65535", server.Limits{}, "--write-memory 65535: it is at least 64k"},
		{"--read-memory 2047k", server.Limits{}, "--read-memory 2047k: it is at least 2m"},
		{"--smb-memory 4351k", server.Limits{}, "--smb-memory 4351k: it is at least 4352k"},
		{"--byte-rate 1023k", server.Limits{}, "--byte-rate 1023k: it is at least 1m"},
		{
			"--write-memory 64k --read-memory 2m --smb-memory 4352k --byte-rate 1m",
			server.Limits{
				Unauthenticated: server.DefaultUnauthenticated, SMBMemory: 4352 << 10, ReadBufferBytes: 2 << 20, CreditBudget: 1,
				AuthFailures: 10, ByteRate: 1 << 20, Orphans: server.DefaultOrphans,
			}, "",
		},
	} {
		var o limitOptions
		cmd := &cobra.Command{}
		o.register(cmd)
		if err := cmd.ParseFlags(strings.Fields(r.args)); err != nil {
			t.Fatal(err)
		}
		got, err := o.limits()
		if r.bad != "" {
			if err == nil || !strings.Contains(err.Error(), r.bad) {
				t.Errorf("%s: %v", r.args, err)
			}
			continue
		}
		if err != nil || got != r.want {
			t.Errorf("%s: %+v, %v", r.args, got, err)
		}
	}
}
