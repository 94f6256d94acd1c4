package frame

import (
	"bytes"
	"errors"
	"testing"
)

// A start-up frame carries up to 512 bytes of private data, and no more.
//
// Source: [RFC 5044 §7.1.1]
func TestStartupFrameBoundsPrivateData(t *testing.T) {
	for _, reply := range []bool{false, true} {
		for _, n := range []int{0, 1, MaxPrivateData - 1, MaxPrivateData} {
			private := bytes.Repeat([]byte{7}, n)
			b := (&Startup{Reply: reply, Revision: 1, Private: private}).AppendTo(nil)
			size, err := StartupSize(b[:StartupHeaderSize], reply)
			if size != len(b) || err != nil {
				t.Errorf("reply %t, %d bytes: size %d, %v; want %d", reply, n, size, err, len(b))
			}
			if s, err := DecodeStartup(b, reply); !bytes.Equal(s.Private, private) || err != nil {
				t.Errorf("reply %t, %d bytes: %d decoded, %v", reply, n, len(s.Private), err)
			}
		}
		b := (&Startup{Reply: reply, Revision: 1, Private: make([]byte, MaxPrivateData+1)}).AppendTo(nil)
		if size, err := StartupSize(b[:StartupHeaderSize], reply); !errors.Is(err, ErrStartupLength) {
			t.Errorf("reply %t, a byte too many: size %d, %v", reply, size, err)
		}
	}
}
