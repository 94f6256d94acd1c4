package main

import (
	"time"

	"lwio/cmd/lwio/internal/config"
	"lwio/server"
)

// limitsOf returns the limits of a server with these settings, which have no contradiction.
func limitsOf(o *config.Options) server.Limits {
	return server.Limits{
		SMBConnections: o.SMBConnections, Connections: o.Connections, Unauthenticated: o.Unauthenticated,
		ConnectionsPerUser: o.UserConnections, ConnectionsPerKey: o.SessionConnections,
		FilesPerConnection: o.ConnectionFiles, Registrations: o.Registrations, Orphans: o.Orphans,
		Credits: o.Credits, MaxCredits: o.MaxCredits, CreditBudget: int(o.WriteMemory / o.MaxWrite), Workers: o.Workers,
		SMBMemory: o.SMBMemory, ReadBufferBytes: int(o.ReadMemory),
		MaxRDMAWindowSize: int(o.MaxRead), MaxRecvBufferSize: int(o.MaxWrite), MaxByReferenceSize: int(o.MaxWriteByReference),
		RequestRate: o.RequestRate, ByteRate: o.ByteRate, ByteBurst: o.ByteBurst, AuthFailures: o.AuthFailures,
		AuthTimeout: o.AuthTimeout, StallTimeout: o.StallTimeout, BusyPoll: orNone(o.BusyPoll),
	}
}

// orNone returns a time of package server, where a negative one stands for none, and 0 for the default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
