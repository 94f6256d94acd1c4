// Package ratelimit bounds how often something is done: requests and bytes of a user,
// failed logons, log lines that a peer can cause. It imports the standard library only.
package ratelimit

import "time"

// Bucket is a leaky bucket: its level falls by a steady rate, and each event raises it.
// The zero value is empty. It is not safe for concurrent use.
type Bucket struct {
	level float64
	at    time.Time
}

// Level returns the level at now. perSecond leaks out each second.
func (b *Bucket) Level(now time.Time, perSecond float64) float64 {
	if b.level == 0 {
		return 0
	}
	return max(b.level-max(now.Sub(b.at).Seconds(), 0)*perSecond, 0)
}

// Add raises the level by n and returns the new level.
func (b *Bucket) Add(now time.Time, perSecond, n float64) float64 {
	b.level, b.at = b.Level(now, perSecond)+n, now
	return b.level
}
