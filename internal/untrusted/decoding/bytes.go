// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decoding

// valueBytes is what a value takes once it is decoded: two bytes of a list are one of the list's
// type, whatever they are, and while a list grows there is more than one of it.
const valueBytes = 256

// DecodedBytes is about how many bytes JSON takes once it is decoded.
func DecodedBytes(text []byte) int64 {
	var c byteCounter
	c.addPiece(text)
	return c.decodedBytes()
}

// byteCounter counts what JSON takes that comes piece by piece.
type byteCounter struct {
	bytes, values   int64
	inText, escaped bool
}

func (c *byteCounter) addPiece(piece []byte) {
	c.bytes += int64(len(piece))
	for _, b := range piece {
		switch {
		case c.escaped:
			c.escaped = false
		case c.inText:
			c.escaped = b == '\\'
			c.inText = b != '"'
		case b == '"':
			c.inText = true
		case b == ',', b == '[', b == '{': // behind which a value begins
			c.values++
		}
	}
}

// decodedBytes is about how many bytes it takes once it is decoded.
func (c *byteCounter) decodedBytes() int64 { return c.bytes + c.values*valueBytes }
