// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

// amount is how much a member told.
type amount struct {
	objects int
	bytes   int64
}

func (a amount) plus(b amount) amount { return amount{a.objects + b.objects, a.bytes + b.bytes} }

func (a amount) minus(b amount) amount { return amount{a.objects - b.objects, a.bytes - b.bytes} }

func (a amount) atLeast(b amount) amount {
	return amount{max(a.objects, b.objects), max(a.bytes, b.bytes)}
}

// told is what was told of a collection, or of several: what was listed, and what
// came since in watches that go on from there.
type told struct{ listed, since amount }

func (t told) plus(u told) told { return told{t.listed.plus(u.listed), t.since.plus(u.since)} }

func (t told) minus(u told) told { return told{t.listed.minus(u.listed), t.since.minus(u.since)} }

// atLeast returns the bigger of each amount.
func (t told) atLeast(u told) told {
	return told{t.listed.atLeast(u.listed), t.since.atLeast(u.since)}
}
