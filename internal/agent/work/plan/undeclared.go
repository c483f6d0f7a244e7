// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// undeclaredWaitMin and undeclaredWaitMax bound the time until a whole manifest is sent
	// again of which the member does not know fields; it doubles.
	undeclaredWaitMin = 30 * time.Second
	undeclaredWaitMax = 10 * time.Minute
)

// UndeclaredFields are the fields of a manifest that the API server of the member does not know.
// The whole manifest is sent again at growing intervals: the member may be upgraded, and
// nothing tells of that. Nil stands for no fields.
type UndeclaredFields struct {
	// Paths are those of the fields, never empty.
	Paths []ignore.Path

	hash    apply.ManifestHash // of the manifest and of how it is applied
	refused int                // how often in a row the whole manifest was refused
	at      time.Time          // of the last time
}

// RetryDelay returns how long it takes until the whole manifest with the hash is sent again; zero if
// it is time to, or another manifest had the fields.
func (u *UndeclaredFields) RetryDelay(hash apply.ManifestHash, now time.Time) time.Duration {
	if u == nil || u.hash != hash {
		return 0
	}
	wait := backoff.DelayAfter(u.refused, backoff.ExponentialBetween(undeclaredWaitMin, undeclaredWaitMax))
	return max(0, u.at.Add(wait).Sub(now))
}

// UpdateAfterSend returns what is known once a manifest with the hash was sent, nil if it has no
// such fields. Whole says that it was sent whole at first.
func (u *UndeclaredFields) UpdateAfterSend(hash apply.ManifestHash, paths []ignore.Path, whole bool, now time.Time) *UndeclaredFields {
	if len(paths) == 0 {
		return nil
	}
	found := &UndeclaredFields{Paths: paths, hash: hash, refused: 1, at: now}
	switch same := u != nil && u.hash == hash; {
	case same && whole:
		found.refused = u.refused + 1
	case same:
		found.refused = u.refused
		found.at = u.at
	}
	return found
}
