// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package size computes the size of objects as JSON without encoding them, and
// knows the API server's limit. It does not say what is left out of an object
// that is too large.
package size

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ObjectBytesMax is how large an object is that we write, in bytes as JSON.
// etcd takes requests of 1.5 MiB (1536 KiB), the API server bodies of 3 MiB.
// What is left is for metadata.managedFields, which the agent does not see, and
// for the key and the frame of the request.
const ObjectBytesMax = 1400 << 10

// TooLarge reports whether a server refused an object for its size. There are
// three that do: the API server, its client of etcd, and etcd.
func TooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusRequestEntityTooLarge || strings.Contains(s.Message, "request is too large") ||
		strings.Contains(s.Message, "message larger than max")
}

// TextBytes returns how many bytes the texts take as JSON, quotation marks not
// counted.
func TextBytes(texts ...string) int {
	n := 0
	for _, text := range texts {
		for i := 0; i < len(text); {
			if text[i] < utf8.RuneSelf {
				n += asciiBytes(text[i])
				i++
				continue
			}
			r, width := utf8.DecodeRuneInString(text[i:])
			i += width
			if r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
				width = len(`\u0000`)
			}
			n += width
		}
	}
	return n
}

// asciiBytes returns how many bytes a character of one byte takes.
func asciiBytes(c byte) int {
	switch c {
	case '"', '\\', '\n', '\r', '\t', '\b', '\f':
		return 2
	case '<', '>', '&':
		return len(`\u0000`)
	}
	if c < ' ' {
		return len(`\u0000`)
	}
	return 1
}
