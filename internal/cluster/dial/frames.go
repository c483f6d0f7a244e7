// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"strings"
)

// depthsKnown is up to which depth it is known whether a list is open there.
const depthsKnown = 64

// frameScanner finds the events in what a watch sends, or the items of a list, in JSON, piece
// by piece, without understanding them.
type frameScanner struct {
	// around is how many braces and brackets are around each item; 0 is for events.
	around int
	// size is how many bytes there are of the event that is being sent.
	size int64

	depth            int // of braces and brackets
	inText, escaping bool
	// lists has a bit for each of the first depths: whether a list is open there.
	lists uint64
	// elements are how many there are in lists: two bytes of a list may be a struct of
	// hundreds, whatever they are. Clients make one of a number, too, before they fail.
	elements int64
}

// scanFrames takes in the next bytes and returns how many events ended in them, and the
// size of the biggest that began in them or before.
func (f *frameScanner) scanFrames(data []byte) (events int, biggest int64) {
	for _, b := range data {
		f.size++
		switch {
		case f.escaping:
			f.escaping = false
		case f.inText:
			f.escaping = b == '\\'
			f.inText = b != '"'
		case b == '"':
			f.inText = true
		case b == '{' || b == '[':
			f.openContainer(b == '[')
			events += f.beginElement()
		case b == ',':
			events += f.beginElement()
		case b == '}' || b == ']':
			f.depth = max(0, f.depth-1)
			if f.depth == 0 && f.around == 0 {
				events, biggest = events+1, max(biggest, f.size)
				f.size = 0
			}
		}
	}
	return events, max(biggest, f.size)
}

// openContainer notes that a list or an object begins.
func (f *frameScanner) openContainer(list bool) {
	f.lists &^= 1 << f.depth
	if list {
		f.lists |= 1 << f.depth
	}
	f.depth++
}

// beginElement counts the element of a list that may begin here: behind the bracket of a list,
// or a comma. Far inside, everything is one. It returns how many items begin.
func (f *frameScanner) beginElement() (items int) {
	if f.depth == 0 || f.depth <= depthsKnown && f.lists&(1<<(f.depth-1)) == 0 {
		return 0
	}
	f.elements++
	if f.depth == f.around {
		return 1
	}
	return 0
}

// tooDense reports whether there are more elements than in so many bytes of an answer of
// an API server.
func (f *frameScanner) tooDense(bytes int64) bool {
	return f.elements > elementsMin+bytes/bytesPerElement
}

// eventScale tells how heavy the heaviest event of a watch is. It counts bytes, or what elements and quantities
// count, as answers do.
type eventScale struct {
	// bytes and parts are those of the events before the one that is being sent.
	bytes, parts int64
	heaviest     int64
	// ended is how many events have ended that are none of a list.
	ended int
	// goesOn says that there is no list, or no more of it.
	goesOn bool
}

// weighEvents takes in what there is of all events, and how many ended in what came last. It returns by how much
// the heaviest is heavier than before.
func (s *eventScale) weighEvents(bytes, parts int64, ended int) (more int64) {
	weight := max(bytes-s.bytes, bytesPerElement*(parts-s.parts))
	more = max(0, weight-s.heaviest)
	s.heaviest += more
	if ended > 0 {
		s.ended += ended
		s.bytes = bytes
		s.parts = parts
	}
	return more
}

// startEvents says that what comes is no more of a list, once it is called between two events.
func (s *eventScale) startEvents() {
	if !s.goesOn {
		s.goesOn = true
		s.ended = 0
	}
}

// textFinder finds a text in what comes piece by piece.
type textFinder struct {
	text string
	// tail is the end of what came, as the text may begin in it.
	tail string
}

// foundIn takes in the next bytes and reports whether the text ends in them.
func (f *textFinder) foundIn(data []byte) bool {
	n := len(f.text) - 1
	seam := f.tail + string(data[:min(n, len(data))])
	found := strings.Contains(seam, f.text) || bytes.Contains(data, []byte(f.text))
	last := f.tail + string(data[max(0, len(data)-n):])
	f.tail = last[max(0, len(last)-n):]
	return found
}
