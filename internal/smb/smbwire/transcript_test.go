package smbwire

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
)

// bodies names the structures of requests and responses, by command.
var bodies = map[Command][2]string{
	CommandNegotiate:      {"NegotiateRequest", "NegotiateResponse"},
	CommandSessionSetup:   {"SessionSetupRequest", "SessionSetupResponse"},
	CommandLogoff:         {"Empty", "Empty"},
	CommandTreeConnect:    {"TreeConnectRequest", "TreeConnectResponse"},
	CommandTreeDisconnect: {"Empty", "Empty"},
	CommandCreate:         {"CreateRequest", "CreateResponse"},
	CommandClose:          {"CloseRequest", "CloseResponse"},
	CommandFlush:          {"FlushRequest", "Empty"},
	CommandRead:           {"ReadRequest", "ReadResponse"},
	CommandWrite:          {"WriteRequest", "WriteResponse"},
	CommandLock:           {"LockRequest", "Empty"},
	CommandIoctl:          {"IoctlRequest", "IoctlResponse"},
	CommandCancel:         {"Empty", ""},
	CommandEcho:           {"Empty", "Empty"},
	CommandQueryDirectory: {"QueryDirectoryRequest", "BufferResponse"},
	CommandChangeNotify:   {"ChangeNotifyRequest", "BufferResponse"},
	CommandQueryInfo:      {"QueryInfoRequest", "BufferResponse"},
	CommandSetInfo:        {"SetInfoRequest", "SetInfoResponse"},
	CommandOplockBreak:    {"OplockBreak", "OplockBreak"},
}

// structureOf names the structure of the body behind h.
func structureOf(h Header) string {
	if h.Flags&FlagResponse == 0 {
		return bodies[h.Command][0]
	}
	if h.Status.Failed() && h.Status != ntstatus.MoreProcessingRequired || h.Status == ntstatus.Pending {
		return "ErrorResponse"
	}
	return bodies[h.Command][1]
}

// recodeMessage decodes and encodes a whole compound.
func recodeMessage(msg []byte) ([]byte, error) {
	var out []byte
	for {
		h, element, more, err := Next(msg)
		if err != nil {
			return nil, err
		}
		c, ok := codecs[structureOf(h)]
		if !ok {
			return nil, errors.New(h.Command.String())
		}
		body, err := c.recode(element[HeaderSize:])
		if err != nil {
			return nil, err
		}
		start := len(out)
		out = append(h.AppendTo(out), body...)
		if more == nil {
			return out, nil
		}
		out, msg = EndElement(out, start), more
	}
}

// transcript reads the messages of a recording.
func transcript(tb testing.TB, file string) (lines [][]byte) {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if _, raw, ok := strings.Cut(s.Text(), " "); ok && s.Text()[0] != '#' {
			lines = append(lines, unhex(tb, raw))
		}
	}
	return lines
}

func transcripts(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		tb.Fatal("no transcripts", err)
	}
	return files
}

// plain returns a message without its optional parts: zeros at the end, the byte of an empty
// buffer, and the offset of an empty buffer.
func plain(structure string, msg []byte) []byte {
	msg = bytes.Clone(msg)
	body := msg[HeaderSize:]
	switch {
	case structure == "ErrorResponse" && le.Uint32(body[4:]) == 0:
		body[errorResponseFixed] = 0
	case structure == "IoctlRequest" && le.Uint32(body[28:]) == 0:
		le.PutUint32(body[24:], 0)
	}
	if structure == "IoctlRequest" && le.Uint32(body[40:]) == 0 {
		le.PutUint32(body[36:], 0)
	}
	return bytes.TrimRight(msg, "\x00")
}

// Recorded messages between Samba's client and server are decoded, and encoded to the same
// bytes.
//
// Source: [MS-SMB2 2.2], [OP-5c]
func TestRecordedMessagesDecode(t *testing.T) {
	for _, file := range transcripts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for i, msg := range transcript(t, file) {
				if errors.Is(CheckProtocol(msg), ErrSMB1) {
					if n, err := DecodeSMB1Negotiate(msg); err != nil || !n.SMB2002 || !n.SMB2Wildcard {
						t.Errorf("message %d: %+v, %v", i, n, err)
					}
					continue
				}
				got, err := recodeMessage(msg)
				if err != nil {
					t.Errorf("message %d: %v\n%x", i, err, msg)
					continue
				}
				h, _ := DecodeHeader(msg)
				if !bytes.Equal(plain(structureOf(h), got), plain(structureOf(h), msg)) {
					t.Errorf("message %d, %v %s: got\n%x, was\n%x", i, h.Command, structureOf(h), got, msg)
				}
			}
		})
	}
}

// FuzzMessage feeds whole compounds, in the directions of a server and a client.
//
// Source: [MS-SMB2 2.2], [MS-SMB2 3.3.5.2.7]
func FuzzMessage(f *testing.F) {
	for _, file := range transcripts(f) {
		for _, msg := range transcript(f, file) {
			f.Add(msg)
		}
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		once, err := recodeMessage(msg)
		if err != nil {
			return
		}
		if twice, err := recodeMessage(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v\n%x\n%x", err, once, twice)
		}
	})
}
