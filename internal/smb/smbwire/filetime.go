package smbwire

import "time"

// Filetime counts units of 100 ns from the start of 1601, UTC. Zero is no time.
//
// Source: [MS-DTYP 2.3.3]
type Filetime uint64

// Values with a meaning in SET_INFO.
//
// Source: [MS-FSCC 2.4.7]
const (
	// FiletimeKeep changes nothing.
	FiletimeKeep Filetime = 0
	// FiletimeFreeze changes nothing, and keeps later writes through this handle from
	// changing the time.
	FiletimeFreeze Filetime = 1<<64 - 1
	// FiletimeThaw ends FiletimeFreeze.
	FiletimeThaw Filetime = 1<<64 - 2
)

const (
	// epochSeconds is from 1601 to 1970.
	epochSeconds   = 11644473600
	ticksPerSecond = 10_000_000
	maxFiletime    = 1<<63 - 1
)

// FiletimeOf translates t, rounding down to 100 ns. The zero Time and times before 1601
// become 0; later times become the last FILETIME.
func FiletimeOf(t time.Time) Filetime {
	if t.IsZero() {
		return 0
	}
	s := t.Unix() + epochSeconds
	switch {
	case s < 0:
		return 0
	case s >= maxFiletime/ticksPerSecond:
		return maxFiletime
	}
	return Filetime(s*ticksPerSecond + int64(t.Nanosecond()/100))
}

// Time translates f to UTC. 0 and values that are no time (FiletimeFreeze and others with
// the highest bit set) become the zero Time.
func (f Filetime) Time() time.Time {
	if f == 0 || f > maxFiletime {
		return time.Time{}
	}
	return time.Unix(int64(f/ticksPerSecond)-epochSeconds, int64(f%ticksPerSecond)*100).UTC()
}
