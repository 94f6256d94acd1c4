package smbwire

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// of returns a codec. fit changes a random value into one that can be sent.
func of[T any, P appender[T]](decode func([]byte) (T, error), fit func(*T)) codec {
	return codec{
		recode: func(b []byte) ([]byte, error) {
			v, err := decode(b)
			if err != nil {
				return nil, err
			}
			return P(&v).AppendTo(nil), nil
		},
		golden: func(t *testing.T, g golden) {
			want, raw := g.value.(T), unhex(t, g.wire)
			if got := P(&want).AppendTo(nil); !bytes.Equal(got, raw) {
				t.Errorf("encoded\n%x, want\n%x", got, raw)
			}
			got, err := decode(raw)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("decoded: %v %s", err, diff)
			}
			for n := range raw {
				if _, err := decode(raw[:n:n]); err == nil {
					t.Errorf("%d of %d bytes were accepted", n, len(raw))
				}
			}
		},
		random: func(t *testing.T) {
			values := rapid.Make[T]()
			rapid.Check(t, func(t *rapid.T) {
				want := values.Draw(t, "value")
				if fit != nil {
					fit(&want)
				}
				before := []byte("before")
				b := P(&want).AppendTo(bytes.Clone(before))
				if !bytes.HasPrefix(b, before) {
					t.Fatal("AppendTo changed the bytes before")
				}
				b = append(b[len(before):], 0, 0, 0)
				got, err := decode(b)
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
					t.Fatalf("%v %s", err, diff)
				}
			})
		},
	}
}

// exact cuts the padding of the random test, for structures that are not in a message and
// whose end is the end of the input.
func exact[T any](decode func([]byte) (T, error)) func([]byte) (T, error) {
	return func(b []byte) (T, error) {
		if len(b) >= 3 && bytes.Equal(b[len(b)-3:], []byte{0, 0, 0}) {
			if v, err := decode(b[:len(b)-3]); err == nil {
				return v, nil
			}
		}
		return decode(b)
	}
}

func fitDialects(r *NegotiateRequest) {
	if !offers311(r.Dialects) {
		r.Contexts = nil
	}
}

func fitContexts(list []CreateContext) {
	for i := range list {
		list[i].Name = CreateContextMaximalAccess
	}
}

// codecs are all structures with a single form.
var codecs = map[string]codec{
	"Header":                of(DecodeHeader, fitHeader),
	"TransformHeader":       of(DecodeTransformHeader, nil),
	"SMB1Negotiate":         of(DecodeSMB1Negotiate, nil),
	"NegotiateRequest":      of(DecodeNegotiateRequest, fitDialects),
	"NegotiateResponse":     of(DecodeNegotiateResponse, fitNegotiateResponse),
	"PreauthIntegrity":      of(DecodePreauthIntegrity, nil),
	"SessionSetupRequest":   of(DecodeSessionSetupRequest, nil),
	"SessionSetupResponse":  of(DecodeSessionSetupResponse, nil),
	"Empty":                 of(DecodeEmpty, nil),
	"TreeConnectRequest":    of(DecodeTreeConnectRequest, nil),
	"TreeConnectResponse":   of(DecodeTreeConnectResponse, nil),
	"CreateRequest":         of(DecodeCreateRequest, func(r *CreateRequest) { fitContexts(r.Contexts) }),
	"CreateResponse":        of(DecodeCreateResponse, func(r *CreateResponse) { fitContexts(r.Contexts) }),
	"MaximalAccess":         of(DecodeMaximalAccess, nil),
	"OnDiskID":              of(DecodeOnDiskID, nil),
	"AppInstance":           of(DecodeAppInstance, nil),
	"DurableRequest":        of(DecodeDurableRequest, nil),
	"DurableResponse":       of(DecodeDurableResponse, nil),
	"DurableReconnect":      of(DecodeDurableReconnect, nil),
	"DurableV1Reconnect":    of(DecodeDurableV1Reconnect, nil),
	"CloseRequest":          of(DecodeCloseRequest, nil),
	"CloseResponse":         of(DecodeCloseResponse, nil),
	"FlushRequest":          of(DecodeFlushRequest, nil),
	"ReadRequest":           of(DecodeReadRequest, nil),
	"ReadResponse":          of(DecodeReadResponse, nil),
	"WriteRequest":          of(DecodeWriteRequest, nil),
	"WriteResponse":         of(DecodeWriteResponse, nil),
	"LockRequest":           of(DecodeLockRequest, fitLock),
	"IoctlRequest":          of(DecodeIoctlRequest, nil),
	"IoctlResponse":         of(DecodeIoctlResponse, nil),
	"QueryDirectoryRequest": of(DecodeQueryDirectoryRequest, nil),
	"BufferResponse":        of(DecodeBufferResponse, nil),
	"ChangeNotifyRequest":   of(DecodeChangeNotifyRequest, nil),
	"QueryInfoRequest":      of(DecodeQueryInfoRequest, nil),
	"SetInfoRequest":        of(DecodeSetInfoRequest, nil),
	"SetInfoResponse":       of(DecodeSetInfoResponse, nil),
	"OplockBreak":           of(DecodeOplockBreak, nil),
	"Notification":          of(DecodeNotification, nil),
	"LeaseAck":              of(DecodeLeaseAck, nil),
	"LeaseBreak":            of(DecodeLeaseBreak, nil),
	"ErrorResponse":         of(DecodeErrorResponse, fitError),

	"ValidateNegotiateRequest":  of(DecodeValidateNegotiateRequest, nil),
	"ValidateNegotiateResponse": of(exact(DecodeValidateNegotiateResponse), nil),
	"ResumeKey":                 of(DecodeResumeKey, nil),
	"PipeWait":                  of(DecodePipeWait, nil),

	"BasicInfo":        of(DecodeBasicInfo, nil),
	"StandardInfo":     of(DecodeStandardInfo, nil),
	"Uint32Info":       of(DecodeUint32Info, nil),
	"Uint64Info":       of(DecodeUint64Info, nil),
	"DispositionInfo":  of(DecodeDispositionInfo, nil),
	"NameInfo":         of(DecodeNameInfo, nil),
	"AllInfo":          of(DecodeAllInfo, nil),
	"NetworkOpenInfo":  of(DecodeNetworkOpenInfo, nil),
	"AttributeTagInfo": of(DecodeAttributeTagInfo, nil),
	"CompressionInfo":  of(DecodeCompressionInfo, nil),
	"RenameInfo":       of(DecodeRenameInfo, nil),
	"FSVolumeInfo":     of(DecodeFSVolumeInfo, nil),
	"FSSizeInfo":       of(DecodeFSSizeInfo, nil),
	"FSFullSizeInfo":   of(DecodeFSFullSizeInfo, nil),
	"FSDeviceInfo":     of(DecodeFSDeviceInfo, nil),
	"FSAttributeInfo":  of(DecodeFSAttributeInfo, nil),
	"FSControlInfo":    of(DecodeFSControlInfo, nil),
	"FileIDInfo":       of(DecodeFileIDInfo, nil),
	"FSObjectIDInfo":   of(DecodeFSObjectIDInfo, nil),
	"FSSectorSizeInfo": of(DecodeFSSectorSizeInfo, nil),
}

func fitHeader(h *Header) {
	if h.Flags&FlagAsync != 0 {
		h.ProcessID, h.TreeID = 0, 0
	} else {
		h.AsyncID = 0
	}
}

func fitNegotiateResponse(r *NegotiateResponse) {
	if len(r.Contexts) > 0 {
		r.Dialect = Dialect311
	}
}

func fitLock(r *LockRequest) {
	if len(r.Locks) == 0 {
		r.Locks = []LockElement{{Offset: 1}}
	}
}

func fitError(r *ErrorResponse) {
	if len(r.Contexts) > 0 {
		r.Data = nil
	}
}

// Each value that can be sent is decoded to itself, also with padding behind.
//
// Source: [MS-SMB2 2.2], [MS-FSCC 2.4], [MS-FSCC 2.5]
func TestRandomRoundTrip(t *testing.T) {
	for name, c := range codecs {
		t.Run(name, func(t *testing.T) { c.random(t) })
	}
}

// FuzzStructures feeds each decoder: an accepted value is encoded and decoded to itself.
//
// Source: [MS-SMB2 2.2], [MS-FSCC 2.4], [MS-FSCC 2.5]
func FuzzStructures(f *testing.F) {
	for _, g := range goldens {
		f.Add(g.codec, unhex(f, g.wire))
	}
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		c, ok := codecs[name]
		if !ok {
			return
		}
		once, err := c.recode(raw)
		if err != nil {
			return
		}
		twice, err := c.recode(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s: %v\n%x\n%x", name, err, once, twice)
		}
	})
}
