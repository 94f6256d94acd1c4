package main

import (
	"time"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

// The loads of several rows.
var (
	single   = bench{RW: "randread", Size: 4 * kib, Depth: 1}
	deep     = bench{RW: "randread", Size: 4 * kib, Depth: 32}
	mid      = bench{RW: "randread", Size: 64 * kib, Depth: 8}
	large    = bench{RW: "randread", Size: mib, Depth: 8}
	largeOf4 = bench{RW: "randread", Size: mib, Depth: 4}
	together = bench{RW: "randread", Size: 4 * kib, Depth: 256, Mode: interrupt}
)

// via is the job over a transport.
func (j bench) via(transport, mode string) bench { j.Via, j.Mode = transport, mode; return j }

// local is the job on the local file.
func (j bench) local() bench { return j.via(viaLocal, "") }

// writing is the job with writes, mixed the job with reads and writes in fio's default
// proportion.
func (j bench) writing() bench { j.RW = "randwrite"; return j }
func (j bench) mixed() bench   { j.RW = "randrw"; return j }

func (j bench) noCRC() bench            { j.NoCRC = true; return j }
func (j bench) paged() bench            { j.Paged = true; return j }
func (j bench) oneCore() bench          { j.Shared = true; return j }
func (j bench) by(engine string) bench  { j.Engine = engine; return j }
func (j bench) encrypted() bench        { j.Encrypted = true; return j }
func (j bench) burst() bench            { j.Burst = true; return j }
func (j bench) connections(n int) bench { j.Conns, j.Depth = n, 4; return j }
func (j bench) nbd() fio                { return fio{viaTCP, j.RW, j.Size, j.Depth, j.Paged} }
func (j fio) by(way string) fio         { j.Via = way; return j }
func tcp(j sides.Job, spin bool) tcpJob { j.Via, j.Spin = "tcp", spin; return tcpJob{Job: j} }
func (j tcpJob) cubic() tcpJob          { j.Congestion = "cubic"; return j }
func (j tcpJob) withFile() tcpJob       { j.needsFile = true; return j }

// The floors over TCP.
var (
	ask       = sides.Job{Bench: "ask", Size: 4 * kib, Count: 20_000}
	fileRead  = sides.Job{Bench: "file read", Size: mib, Flight: 8, Count: 2_000}
	fileWrite = sides.Job{Bench: "file write", Size: mib, Flight: 8, Count: 2_000}
	drain     = sides.Job{Bench: "drain", Size: mib, Flight: 8, Count: 3_000}
)

const (
	idleConns  = 1000
	idleMemory = 256 * kib // of a connection; idle ones do not use the granted buffers
	idleTotal  = 400 * mib

	floodClients = 1000
	peerRate     = 2000            // attempts in a second
	peerLead     = 3 * time.Second // fills the tables of the server
)

// ioRows are the rows of file I/O.
var ioRows = []measure.Row{
	{Name: "shm-1", Title: "shm: 4 KiB random reads, one at a time", Subjects: []measure.Subject{
		{Name: "local", Job: single.local()},
		{Name: "shm, polling", Job: single.via(viaShm, polling)},
	}, Bars: []measure.Bar{atMost(1, 0, measure.P50, 1.8)}},

	{Name: "shm-32", Title: "shm: 4 KiB random reads, 32 in flight", Subjects: []measure.Subject{
		{Name: "local", Job: deep.local()},
		{Name: "shm, polling", Job: deep.via(viaShm, polling)},
		{Name: "shm, interrupt", Job: deep.via(viaShm, interrupt)},
	}, Bars: []measure.Bar{
		rateAtLeast(1, 0, 0.8), rateAtLeast(2, 0, 0.55), atMost(2, 0, measure.ClientCPU, 0.6),
	}},

	{Name: "calls-32", Title: "4 KiB random reads by 32 goroutines that call ReadAt, beside one Batch", Subjects: []measure.Subject{
		{Name: "shm, Batch", Job: deep.via(viaShm, adaptive)},
		{Name: "shm, calls", Job: deep.via(viaShm, adaptive).by("sync")},
		{Name: "iwarp, CRC on, Batch", Job: deep.via(viaIWARP, adaptive)},
		{Name: "iwarp, CRC on, calls", Job: deep.via(viaIWARP, adaptive).by("sync")},
		{Name: "SMB alone, Batch", Job: deep.via(viaSMB, "").by("batch")},
		{Name: "SMB alone, calls", Job: deep.via(viaSMB, "").by("sync")},
		{Name: "local", Job: deep.local()},
	}, Bars: []measure.Bar{
		rateAtLeast(1, 0, 0.6), rateAtLeast(3, 2, 0.6), atMost(3, 2, measure.ClientCPU, 2),
	}},

	{Name: "calls-1m", Title: "1 MiB reads by 4 goroutines that call ReadAt", Subjects: []measure.Subject{
		{Name: "local", Job: largeOf4.local()},
		{Name: "shm", Job: largeOf4.via(viaShm, adaptive).by("sync")},
		{Name: "iwarp, CRC on", Job: largeOf4.via(viaIWARP, adaptive).by("sync")},
		{Name: "SMB alone", Job: largeOf4.via(viaSMB, "").by("sync")},
	}},

	protection("protection-1m", "protection: 1 MiB reads, 8 in flight", large),
	protection("protection-4k-1", "protection: 4 KiB random reads, one at a time", single),
	protection("protection-4k-32", "protection: 4 KiB random reads, 32 in flight", deep),

	{Name: "mixed-4k", Title: "4 KiB random reads and writes, half each, 32 in flight, to the file of pages", Subjects: []measure.Subject{
		{Name: "local", Job: deep.local().mixed().paged()},
		{Name: "nbdkit, file plugin, and fio, over TCP", Job: deep.mixed().paged().nbd()},
		{Name: "shm", Job: deep.via(viaShm, adaptive).mixed().paged()},
		{Name: "iwarp, CRC on", Job: deep.via(viaIWARP, adaptive).mixed().paged()},
	}},

	blockDevice("nbd-4k", "fio over NBD: 4 KiB random reads, 32 in flight", deep),
	blockDevice("nbd-1m", "fio over NBD: 1 MiB random reads, 8 in flight", large),
	blockDevice("nbd-write-4k", "fio over NBD: 4 KiB random writes, 32 in flight, to the file of pages", deep.writing().paged()),

	{Name: "adaptive-1", Title: "adaptive: 4 KiB random reads, one at a time", Subjects: []measure.Subject{
		{Name: "shm, polling", Job: single.via(viaShm, polling)},
		{Name: "shm, adaptive", Job: single.via(viaShm, adaptive)},
		{Name: "iwarp, CRC on, polling", Job: single.via(viaIWARP, polling)},
		{Name: "iwarp, CRC on, adaptive", Job: single.via(viaIWARP, adaptive)},
	}, Bars: []measure.Bar{atMost(1, 0, measure.P50, 1.2), atMost(3, 2, measure.P50, 1.2)}},

	{Name: "adaptive-32", Title: "adaptive: 4 KiB random reads, 32 in flight", Subjects: []measure.Subject{
		{Name: "shm, interrupt", Job: deep.via(viaShm, interrupt)},
		{Name: "shm, adaptive", Job: deep.via(viaShm, adaptive)},
		{Name: "iwarp, CRC on, interrupt", Job: deep.via(viaIWARP, interrupt)},
		{Name: "iwarp, CRC on, adaptive", Job: deep.via(viaIWARP, adaptive)},
	}, Bars: []measure.Bar{atMost(1, 0, measure.ClientCPU, 1.2), atMost(3, 2, measure.ClientCPU, 1.2)}},

	{Name: "adaptive-core", Title: "adaptive: 4 KiB random reads, client and server on one core", Subjects: []measure.Subject{
		{Name: "shm, 32 in flight, interrupt", Job: deep.via(viaShm, interrupt).oneCore()},
		{Name: "shm, 32 in flight, adaptive", Job: deep.via(viaShm, adaptive).oneCore()},
		{Name: "shm, one at a time, interrupt", Job: single.via(viaShm, interrupt).oneCore()},
		{Name: "shm, one at a time, adaptive", Job: single.via(viaShm, adaptive).oneCore()},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 0.8), rateAtLeast(3, 2, 0.8)}},

	{Name: "shm-1m", Title: "shm: 1 MiB reads, 8 in flight", Subjects: []measure.Subject{
		{Name: "local", Job: large.local()},
		{Name: "shm, polling", Job: large.via(viaShm, polling)},
		{Name: "shm, interrupt", Job: large.via(viaShm, interrupt)},
	}, Bars: []measure.Bar{
		rateAtLeast(1, 0, 0.95), rateAtLeast(2, 0, 0.8), atMost(2, 0, measure.ClientCPU, 0.2),
	}},

	{Name: "shm-64k", Title: "shm: 64 KiB random reads, 8 in flight", Subjects: []measure.Subject{
		{Name: "local", Job: mid.local()},
		{Name: "shm, interrupt", Job: mid.via(viaShm, interrupt)},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 0.85), atMost(1, 0, measure.ClientCPU, 0.35)}},

	{Name: "iwarp-32", Title: "iwarp: 4 KiB random reads, 32 in flight", Subjects: []measure.Subject{
		{Name: "nbdkit, file plugin, and fio, over TCP", Job: deep.nbd()},
		{Name: "iwarp, CRC off, adaptive", Job: deep.via(viaIWARP, adaptive).noCRC()},
		{Name: "iwarp, CRC off, interrupt", Job: deep.via(viaIWARP, interrupt).noCRC()},
		{Name: "iwarp, CRC off, polling", Job: deep.via(viaIWARP, polling).noCRC()},
	}, Bars: []measure.Bar{
		rateAtLeast(1, 0, 2.5), atMost(1, 0, measure.ClientCPU, 0.25),
		rateAtLeast(2, 0, 2.5), atMost(2, 0, measure.ClientCPU, 0.25),
	}},

	{Name: "iwarp-1", Title: "iwarp: 4 KiB random reads, one at a time", Subjects: []measure.Subject{
		{Name: "TCP ping-pong, spinning", Job: tcp(ask, true)},
		{Name: "iwarp, CRC off, polling", Job: single.via(viaIWARP, polling).noCRC()},
		{Name: "iwarp, CRC on, polling", Job: single.via(viaIWARP, polling)},
		{Name: "TCP ping-pong, asleep", Job: tcp(ask, false)},
		{Name: "iwarp, CRC off, interrupt", Job: single.via(viaIWARP, interrupt).noCRC()},
		{Name: "iwarp, CRC on, interrupt", Job: single.via(viaIWARP, interrupt)},
		{Name: "TCP ping-pong, spinning, with cubic", Job: tcp(ask, true).cubic()},
		{Name: "TCP ping-pong, asleep, with cubic", Job: tcp(ask, false).cubic()},
	}, Bars: []measure.Bar{
		atMost(1, 0, measure.P50, 1.15), atMost(2, 0, measure.P50, 1.15),
		atMost(4, 3, measure.P50, 1.15), atMost(5, 3, measure.P50, 1.15),
	}},

	{Name: "iwarp-1m", Title: "iwarp: 1 MiB reads, 8 in flight", Subjects: []measure.Subject{
		{Name: "pread and TCP", Job: tcp(fileRead, false).withFile()},
		{Name: "iwarp, CRC off", Job: large.via(viaIWARP, adaptive).noCRC()},
		{Name: "iwarp, CRC on", Job: large.via(viaIWARP, adaptive)},
		{Name: "pread and TCP, with cubic", Job: tcp(fileRead, false).withFile().cubic()},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 0.9), rateAtLeast(2, 0, 0.6)}},

	{Name: "together-shm", Title: "shm, interrupt: 256 reads of 4 KiB submitted together", Subjects: []measure.Subject{
		{Name: "calls", Job: together.via(viaShm, interrupt).by("sync")},
		{Name: "Batch, random", Job: together.via(viaShm, interrupt).burst()},
		{Name: "VEC_READ, contiguous", Job: together.via(viaShm, interrupt).by("vec")},
	}, Bars: []measure.Bar{atMost(1, 0, measure.ClientCPU, 0.5), atMost(2, 0, measure.ClientCPU, 0.5)}},

	{Name: "together-iwarp", Title: "iwarp, CRC on, interrupt: 256 reads of 4 KiB submitted together", Subjects: []measure.Subject{
		{Name: "calls", Job: together.via(viaIWARP, interrupt).by("sync")},
		{Name: "Batch, random", Job: together.via(viaIWARP, interrupt).burst()},
		{Name: "VEC_READ, contiguous", Job: together.via(viaIWARP, interrupt).by("vec")},
	}, Bars: []measure.Bar{atMost(1, 0, measure.ClientCPU, 0.5), atMost(2, 0, measure.ClientCPU, 0.5)}},

	writes("write-4k", "4 KiB random writes, 32 in flight", deep.writing()),
	writes("write-4k-paged", "4 KiB random writes, 32 in flight, to the file of pages", deep.writing().paged()),
	largeWrites(),

	sealed("sealed-1", "sealed: 4 KiB random reads, one at a time, polling", single),
	sealed("sealed-32", "sealed: 4 KiB random reads, 32 in flight", deep),
	sealed("sealed-1m", "sealed: 1 MiB reads, 8 in flight", large),
	sealed("sealed-write-1m", "sealed: 1 MiB random writes, 8 in flight", large.writing()),

	{Name: "connections", Title: "iwarp, CRC on: 4 KiB random reads, 4 in flight on each connection", Subjects: []measure.Subject{
		{Name: "1 connection", Job: deep.via(viaIWARP, adaptive).connections(1)},
		{Name: "10 connections", Job: deep.via(viaIWARP, adaptive).connections(10)},
		{Name: "100 connections", Job: deep.via(viaIWARP, adaptive).connections(100)},
		{Name: "1000 connections", Job: deep.via(viaIWARP, adaptive).connections(1000)},
	}, Bars: []measure.Bar{
		rateAtLeast(0, measure.Best, 0.7), rateAtLeast(1, measure.Best, 0.7),
		rateAtLeast(2, measure.Best, 0.7), rateAtLeast(3, measure.Best, 0.7),
	}},

	{Name: "memory", Title: "memory of the server with 1000 idle connections", Subjects: []measure.Subject{
		{Name: "iwarp", Job: idle{viaIWARP, idleConns}},
		{Name: "shm", Job: idle{viaShm, idleConns}},
	}, Bars: []measure.Bar{
		under(0, measure.ServerMemory, idleMemory), under(0, measure.TotalMemory, idleTotal),
		under(1, measure.ServerMemory, idleMemory), under(1, measure.TotalMemory, idleTotal),
	}},

	{Name: "flood", Title: "1000 clients log on, connect over iwarp, CRC on, and read 4 KiB, while unauthenticated peers connect", Subjects: []measure.Subject{
		{Name: "no unauthenticated peers", Job: flood{Clients: floodClients}},
		{Name: "clients of a known address", Job: flood{Clients: floodClients, Peers: peerRate, Lead: peerLead, Guess: true}},
		{Name: "clients of new addresses", Job: flood{Clients: floodClients, Peers: peerRate, Lead: peerLead, Apart: true}},
	}, Bars: []measure.Bar{allServed(1), allServed(2)}},
}

// protection is a row of SMB and iWARP, without encryption and with it.
func protection(name, title string, j bench) measure.Row {
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "AES-128-GCM of the standard library, one side", Job: aead{j.Size, j.Depth}},
		{Name: "SMB alone, signed", Job: j.via(viaSMB, "")},
		{Name: "SMB alone, encrypted", Job: j.via(viaSMB, "").encrypted()},
		{Name: "iwarp, CRC on, plain", Job: j.via(viaIWARP, adaptive)},
		{Name: "iwarp, CRC on, sealed", Job: j.via(viaIWARP, adaptive).encrypted()},
	}}
}

// blockDevice is a row of 'lwio nbd' beside nbdkit. Its server and the server of the share are on one core.
func blockDevice(name, title string, j bench) measure.Row {
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "nbdkit, file plugin, over a Unix socket", Job: j.nbd().by(viaUnix)},
		{Name: "lwio nbd over shm", Job: j.nbd().by(viaShm)},
		{Name: "lwio nbd over iwarp, CRC on", Job: j.nbd().by(viaIWARP)},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 0.7)}}
}

// writes is a row of small writes. No write over a network is faster than a local one.
func writes(name, title string, j bench) measure.Row {
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "local", Job: j.local()},
		{Name: "shm", Job: j.via(viaShm, adaptive)},
		{Name: "nbdkit, file plugin, and fio, over TCP", Job: j.nbd()},
		{Name: "iwarp, CRC off", Job: j.via(viaIWARP, adaptive).noCRC()},
		{Name: "iwarp, CRC on", Job: j.via(viaIWARP, adaptive)},
	}, Bars: []measure.Bar{
		rateAtLeast(1, 0, 0.7), rateAtLeast(3, 2, 2).Or(0), rateAtLeast(4, 2, 2).Or(0),
	}}
}

// largeWrites has two floors more: TCP with a file behind it, and without.
func largeWrites() measure.Row {
	r := writes("write-1m", "1 MiB random writes, 8 in flight", large.writing())
	r.Subjects = append(r.Subjects,
		measure.Subject{Name: "TCP and pwrite", Job: tcp(fileWrite, false).withFile()},
		measure.Subject{Name: "TCP and pwrite, with cubic", Job: tcp(fileWrite, false).withFile().cubic()},
		measure.Subject{Name: "TCP alone", Job: tcp(drain, false)},
		measure.Subject{Name: "TCP alone, with cubic", Job: tcp(drain, false).cubic()})
	for i := 1; i < len(r.Bars); i++ {
		r.Bars[i] = r.Bars[i].Or(5)
	}
	return r
}

// atMost, rateAtLeast and under return bars without a floor.
func atMost(ours, beside int, f measure.Figure, amount float64) measure.Bar {
	return measure.Bar{Ours: ours, Beside: beside, Figure: f, Kind: measure.AtMost, Amount: amount}
}

func rateAtLeast(ours, beside int, amount float64) measure.Bar {
	return measure.Bar{Ours: ours, Beside: beside, Figure: measure.Rate, Kind: measure.AtLeast, Amount: amount}
}

// allServed is a bar of the flood: as many clients are served as without unauthenticated peers.
func allServed(ours int) measure.Bar {
	return measure.Bar{Ours: ours, Beside: 0, Figure: measure.Served, Kind: measure.AtLeast, Amount: 1}
}

func under(ours int, f measure.Figure, amount float64) measure.Bar {
	return measure.Bar{Ours: ours, Beside: measure.None, Figure: f, Kind: measure.AtMost, Amount: amount}
}
