package nbdwire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden is a message written in hexadecimal: one field a word.
func golden(t *testing.T, fields ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(fields, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// text is a string in hexadecimal.
func text(s string) string { return hex.EncodeToString([]byte(s)) }

// same fails the test if an encoded message differs.
func same(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("encoded as\n%x, want\n%x", got, want)
	}
}

// Source: [NBD §Newstyle negotiation], [NBD §Fixed newstyle negotiation], [NBD §Option reply types]
func TestHandshakeMessagesMatchGoldenBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want []byte
	}{
		{"greeting", AppendGreeting(nil, FixedNewstyle|NoZeroes),
			golden(t, "4e42444d41474943", "49484156454f5054", "0003")},
		{"option", OptionHeader{OptGo, 0x01020304}.AppendTo(nil),
			golden(t, "49484156454f5054", "00000007", "01020304")},
		{"reply", AppendOptionReply(nil, OptList, RepServer, []byte("ab")),
			golden(t, "0003e889045565a9", "00000003", "00000002", "00000002", "6162")},
		{"error", AppendOptionReply(nil, OptStartTLS, RepErrPolicy, nil),
			golden(t, "0003e889045565a9", "00000005", "80000002", "00000000")},
		{"export", AppendExport(nil, 0x0102030405060708, HasFlags|SendFlush|CanMultiConn, false),
			golden(t, "0102030405060708", "0105")},
		{"export with zeroes", AppendExport(nil, 1, HasFlags, true),
			golden(t, "0000000000000001", "0001", strings.Repeat("00", 124))},
		{"server", AppendServer(nil, "disk", "a disk"),
			golden(t, "00000004", text("disk"), text("a disk"))},
		{"information about the export", AppendInfoExport(nil, 0x10000, HasFlags|ReadOnly),
			golden(t, "0000", "0000000000010000", "0003")},
		{"information about the name", AppendInfoText(nil, InfoName, "x"), golden(t, "0001", text("x"))},
		{"block sizes", BlockSizes{1, 4096, 32 << 20}.AppendTo(nil),
			golden(t, "0003", "00000001", "00001000", "02000000")},
		{"request for information", InfoRequest{"disk", []Info{InfoName, InfoBlockSize}}.AppendTo(nil),
			golden(t, "00000004", text("disk"), "0002", "0001", "0003")},
		{"query of metadata contexts", MetaQuery{"d", []string{"base:", "x"}}.AppendTo(nil),
			golden(t, "00000001", text("d"), "00000002", "00000005", text("base:"), "00000001", text("x"))},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, c.got, c.want) })
	}
}

// Source: [NBD §Client flags]
func TestClientFlags(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint16
		bad  bool
	}{
		{"00000000", 0, false},
		{"00000001", FixedNewstyle, false},
		{"00000003", FixedNewstyle | NoZeroes, false},
		{"00000005", 0, true},
		{"80000001", 0, true},
		{"00010001", 0, true},
		{"000003", 0, true},
		{"0000000300", 0, true},
	} {
		got, err := DecodeClientFlags(golden(t, c.in), FixedNewstyle|NoZeroes)
		if got != c.want || errors.Is(err, ErrMalformed) != c.bad || (err != nil) != c.bad {
			t.Errorf("%s: %#x, %v", c.in, got, err)
		}
	}
}

// Every prefix of a message, and every message with a byte more, is refused.
func TestPrefixesAreMalformed(t *testing.T) {
	for _, c := range []struct {
		name   string
		msg    []byte
		decode func([]byte) error
	}{
		{"client flags", golden(t, "00000003"), func(b []byte) error {
			_, err := DecodeClientFlags(b, 3)
			return err
		}},
		{"option", OptionHeader{OptGo, 12}.AppendTo(nil), func(b []byte) error {
			_, err := DecodeOptionHeader(b)
			return err
		}},
		{"request for information", InfoRequest{"disk", []Info{0, 1, 2}}.AppendTo(nil), func(b []byte) error {
			_, err := DecodeInfoRequest(b)
			return err
		}},
		{"query of metadata contexts", MetaQuery{"disk", []string{"a", "", "bcd"}}.AppendTo(nil), func(b []byte) error {
			_, err := DecodeMetaQuery(b)
			return err
		}},
		{"request", Request{Command: CmdRead, Length: 1}.AppendTo(nil), func(b []byte) error {
			_, err := DecodeRequest(b)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.decode(c.msg); err != nil {
				t.Errorf("the whole message: %v", err)
			}
			for n := range c.msg {
				if err := c.decode(c.msg[:n]); !errors.Is(err, ErrMalformed) {
					t.Errorf("%d of %d bytes: %v", n, len(c.msg), err)
				}
			}
			if err := c.decode(append(bytes.Clone(c.msg), 0)); !errors.Is(err, ErrMalformed) {
				t.Errorf("a byte more: %v", err)
			}
		})
	}
}

// Source: [NBD §Conventions]
func TestMalformedStringsAndLengths(t *testing.T) {
	for name, msg := range map[string][]byte{
		"NUL":             InfoRequest{Name: "a\x00b"}.AppendTo(nil),
		"no UTF-8":        InfoRequest{Name: "\xff"}.AppendTo(nil),
		"too long":        InfoRequest{Name: strings.Repeat("a", MaxName+1)}.AppendTo(nil),
		"huge name":       golden(t, "ffffffff", "61"),
		"huge number":     golden(t, "00000000", "ffff"),
		"wrong number":    golden(t, "00000000", "0001", "00000000"),
		"name over count": golden(t, "00000003", "610001"),
	} {
		if _, err := DecodeInfoRequest(msg); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeInfoRequest(InfoRequest{Name: strings.Repeat("a", MaxName)}.AppendTo(nil)); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	for name, msg := range map[string][]byte{
		"huge number":  golden(t, "00000000", "ffffffff"),
		"huge query":   golden(t, "00000000", "00000001", "ffffffff"),
		"query of NUL": MetaQuery{Queries: []string{"\x00"}}.AppendTo(nil),
	} {
		if _, err := DecodeMetaQuery(msg); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeOptionHeader(golden(t, "49484156454f5055", "00000007", "00000000")); !errors.Is(err, ErrMalformed) {
		t.Errorf("another magic number: %v", err)
	}
	if _, err := DecodeRequest(golden(t, "25609514", strings.Repeat("00", 24))); !errors.Is(err, ErrMalformed) {
		t.Errorf("another magic number: %v", err)
	}
}

// A decoded message encodes to the same bytes.
func FuzzHandshake(f *testing.F) {
	f.Add(InfoRequest{"disk", []Info{InfoName, InfoBlockSize}}.AppendTo(nil))
	f.Add(MetaQuery{"disk", []string{"base:allocation", "qemu:"}}.AppendTo(nil))
	f.Add(OptionHeader{OptSetMetaContext, 32}.AppendTo(nil))
	f.Add([]byte{0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeInfoRequest(b); err == nil {
			same(t, r.AppendTo(nil), b)
		}
		if q, err := DecodeMetaQuery(b); err == nil {
			same(t, q.AppendTo(nil), b)
		}
		if h, err := DecodeOptionHeader(b); err == nil {
			same(t, h.AppendTo(nil), b)
		}
		if flags, err := DecodeClientFlags(b, FixedNewstyle|NoZeroes); err == nil && flags > 3 {
			t.Errorf("client flags %#x", flags)
		}
	})
}

func TestDecodedHandshake(t *testing.T) {
	r, err := DecodeInfoRequest(golden(t, "00000004", text("disk"), "0002", "0002", "0099"))
	if diff := cmp.Diff(InfoRequest{"disk", []Info{InfoDescription, 0x99}}, r); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	q, err := DecodeMetaQuery(golden(t, "00000000", "00000001", "0000000f", text("base:allocation")))
	if diff := cmp.Diff(MetaQuery{"", []string{"base:allocation"}}, q); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// Messages show the names of the protocol.
func TestStringsAreNamesOfTheProtocol(t *testing.T) {
	for got, want := range map[string]string{
		OptExportName.String(): "NBD_OPT_EXPORT_NAME", OptAbort.String(): "NBD_OPT_ABORT", OptList.String(): "NBD_OPT_LIST",
		OptStartTLS.String(): "NBD_OPT_STARTTLS", OptInfo.String(): "NBD_OPT_INFO", OptGo.String(): "NBD_OPT_GO",
		OptStructuredReply.String(): "NBD_OPT_STRUCTURED_REPLY", OptListMetaContext.String(): "NBD_OPT_LIST_META_CONTEXT",
		OptSetMetaContext.String(): "NBD_OPT_SET_META_CONTEXT", Option(77).String(): "option 77",
		CmdRead.String(): "NBD_CMD_READ", CmdWrite.String(): "NBD_CMD_WRITE", CmdDisc.String(): "NBD_CMD_DISC",
		CmdFlush.String(): "NBD_CMD_FLUSH", CmdTrim.String(): "NBD_CMD_TRIM", CmdCache.String(): "NBD_CMD_CACHE",
		CmdWriteZeroes.String(): "NBD_CMD_WRITE_ZEROES", CmdBlockStatus.String(): "NBD_CMD_BLOCK_STATUS",
		Command(9).String(): "command 9", Errno(3).Error(): "NBD error 3",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, e := range []Errno{EPERM, EIO, ENOMEM, EINVAL, ENOSPC, EOVERFLOW, ENOTSUP, ESHUTDOWN} {
		if !strings.HasPrefix(e.Error(), "NBD_E") {
			t.Errorf("%d is %q", uint32(e), e.Error())
		}
	}
}
