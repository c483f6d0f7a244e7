// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// tokenMax is how many bytes of a name or a value are looked at: more than any name of a
// field has with all of its letters escaped, and than any quantity.
const tokenMax = 1024

// Scanner looks for quantities that cannot be parsed safely, and for texts that are longer than
// they may be, in JSON that comes piece by piece, before anybody reads it. It takes up no more memory for a long text than for a
// short one. What is no JSON is not its business: nobody reads that into an object.
type Scanner struct {
	root *Places
	// open are the objects and lists around what comes next in which there may be a
	// quantity, and beyond how many more are open in these in which there is none.
	open   []jsonContainer
	beyond int

	inText, escaping bool
	// token is what is read of a name, a text or a number; kept says that it matters.
	token []byte
	kept  bool
	err   error
	count int64
}

// jsonContainer is an object or a list that is open.
type jsonContainer struct {
	list bool
	// at is where it is, for each kind that it may be a part of.
	at []*Places
	// named says that the value of a field comes next, at which places.
	named bool
	value []*Places
}

// NewScanner returns a scanner for one text.
func NewScanner(root *Places) *Scanner { return &Scanner{root: root} }

// Count returns how many values there have been where some kind has a quantity: a client makes
// of each twenty times the bytes that it may have.
func (s *Scanner) Count() int64 { return s.count }

// ScanBytes takes in the next bytes. It returns an error that names the first value that
// is refused, and so forever after.
func (s *Scanner) ScanBytes(data []byte) error {
	for i := 0; i < len(data) && s.err == nil; i++ {
		if s.inText && !s.kept && !s.escaping { // most bytes are of texts that do not matter
			end := bytes.IndexAny(data[i:], `"\`)
			if end < 0 {
				break
			}
			i += end
		}
		s.scanByte(data[i])
	}
	return s.err
}

// scanByte takes in a byte.
func (s *Scanner) scanByte(b byte) {
	switch {
	case s.inText:
		s.scanTextByte(b)
	case b == '"':
		s.inText, s.kept = true, s.isRelevant()
	case b == '{' || b == '[':
		s.enterContainer(b == '[')
	case b == '}' || b == ']':
		s.endToken(false)
		s.leaveContainer()
	case b == ',':
		s.endToken(false)
		s.beginNext()
	case b == ':':
		s.beginValue()
	case b == ' ' || b == '\n' || b == '\t' || b == '\r':
		s.endToken(false)
	default:
		s.kept = s.kept || len(s.token) == 0 && s.isRelevant()
		s.keepByte(b)
	}
}

// scanTextByte takes in a byte of a text.
func (s *Scanner) scanTextByte(b byte) {
	switch {
	case s.escaping:
		s.escaping = false
	case b == '"':
		s.inText = false
		s.endToken(true)
		return
	default:
		s.escaping = b == '\\'
	}
	s.keepByte(b)
}

// isRelevant returns whether what begins now is a name, or a value that may be refused.
func (s *Scanner) isRelevant() bool {
	if s.beyond > 0 || len(s.open) == 0 {
		return false
	}
	if in := s.open[len(s.open)-1]; !in.list && !in.named {
		return true
	}
	return slices.ContainsFunc(s.currentPlaces(), func(at *Places) bool { return at.quantity || at.bytesMax > 0 })
}

// currentPlaces returns where the value is that begins now.
func (s *Scanner) currentPlaces() []*Places {
	if len(s.open) == 0 {
		return []*Places{s.root}
	}
	in := s.open[len(s.open)-1]
	if !in.list {
		return in.value
	}
	var items []*Places
	for _, at := range in.at {
		if at.items != nil {
			items = append(items, at.items)
		}
	}
	return items
}

// keepByte keeps a byte of a token, and of a long one that it is longer.
func (s *Scanner) keepByte(b byte) {
	if s.kept && len(s.token) <= tokenMax {
		s.token = append(s.token, b)
	}
}

// endToken ends a name or a value.
func (s *Scanner) endToken(text bool) {
	if !s.kept {
		return
	}
	token := string(s.token)
	s.token = s.token[:0]
	s.kept = false
	if text && len(token) <= tokenMax {
		token = unescapeText(token)
	}
	if in := &s.open[len(s.open)-1]; !in.list && !in.named {
		in.value = in.fieldPlaces(token)
		return
	}
	quantities := int64(0)
	for _, at := range s.currentPlaces() {
		if at.quantity {
			quantities = 1
		}
		s.err = cmp.Or(s.err, at.checkValue(token))
	}
	s.count += quantities
}

// fieldPlaces returns where the value of a field is.
func (c *jsonContainer) fieldPlaces(name string) []*Places {
	var places []*Places
	for _, at := range c.at {
		if field := at.fields[foldName(name)]; field != nil {
			places = append(places, field)
		}
		if at.entries != nil {
			places = append(places, at.entries)
		}
	}
	return places
}

func (s *Scanner) beginValue() {
	if s.beyond == 0 && len(s.open) > 0 {
		s.open[len(s.open)-1].named = true
	}
}

// beginNext says that the next field or item begins.
func (s *Scanner) beginNext() {
	if s.beyond == 0 && len(s.open) > 0 {
		in := &s.open[len(s.open)-1]
		in.named = false
		in.value = nil
	}
}

// enterContainer says that an object or a list begins.
func (s *Scanner) enterContainer(list bool) {
	if s.beyond == 0 {
		var at []*Places
		for _, place := range s.currentPlaces() {
			if list && place.items != nil || !list && (place.fields != nil || place.entries != nil) {
				at = append(at, place)
			}
		}
		if len(at) > 0 {
			s.open = append(s.open, jsonContainer{list: list, at: at})
			return
		}
	}
	s.beyond++
}

// leaveContainer says that an object or a list ends.
func (s *Scanner) leaveContainer() {
	switch {
	case s.beyond > 0:
		s.beyond--
	case len(s.open) > 0:
		s.open = s.open[:len(s.open)-1]
	}
}

// unescapeText returns a text without its escapes.
func unescapeText(token string) string {
	var text string
	if strings.Contains(token, `\`) && json.Unmarshal([]byte(`"`+token+`"`), &text) == nil {
		return text
	}
	return token
}

// checkCost refuses what looks like a number and takes long to parse. The value may be
// another kind's, where it is no quantity, so it may be any text: parsing ends at the first
// character that no quantity has.
func checkCost(text string) error {
	if len(text) > tokenMax {
		return fmt.Errorf("it has more than %d bytes, which no quantity has", tokenMax)
	}
	text = strings.TrimSpace(text)
	digits := strings.TrimLeft(text, "+-")
	if digits == "" || strings.IndexAny(digits, "0123456789.") != 0 || strings.Trim(text, "0123456789.eEinumkKMGTP+-") != "" {
		return nil
	}
	return checkText(text)
}
