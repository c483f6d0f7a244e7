// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// objectBytesMax is how large an object is that we write, in bytes as JSON.
// etcd takes requests of 1.5 MiB (1536 KiB), the API server bodies of 3 MiB.
// What is left is for metadata.managedFields, which the agent does not see, and
// for the key and the frame of the request.
const objectBytesMax = 1400 << 10

// Bytes of the parts of a status as JSON, without the texts in them: the names
// of the fields, the punctuation, and the longest numbers and times. Somewhat
// more than they need.
const (
	conditionBytes = 124
	metaBytes      = 92
	manifestBytes  = 68
	valueBytes     = 76
	listedBytes    = 76
)

// tooLarge tells whether a server refused an object for its size. There are
// three that do: the API server, its client of etcd, and etcd.
func tooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusRequestEntityTooLarge || strings.Contains(s.Message, "request is too large") ||
		strings.Contains(s.Message, "message larger than max")
}

// textBytes is how many bytes the texts take as JSON, quotation marks not
// counted.
func textBytes(texts ...string) int {
	n := 0
	for _, text := range texts {
		for i := 0; i < len(text); {
			c := text[i]
			switch {
			case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
				n += 2
			case c < 0x20 || c == '<' || c == '>' || c == '&':
				n += len(`\u0000`)
			case c >= utf8.RuneSelf:
				r, size := utf8.DecodeRuneInString(text[i:])
				if r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
					n += len(`\u0000`)
				} else {
					n += size
				}
				i += size
				continue
			default:
				n++
			}
			i++
		}
	}
	return n
}

func conditionsBytes(list []metav1.Condition) int {
	n := 0
	for i := range list {
		c := &list[i]
		n += conditionBytes + textBytes(c.Type, c.Reason, c.Message) + len(strconv.FormatInt(c.ObservedGeneration, 10))
	}
	return n
}

func valuesBytes(values []workv1.FeedbackValue) int {
	n := 0
	for i := range values {
		n += valueBytes + textBytes(values[i].Name)
		if v := values[i].FieldValue.String; v != nil {
			n += textBytes(*v)
		}
		if v := values[i].FieldValue.JSONRaw; v != nil {
			n += textBytes(*v)
		}
	}
	return n
}

// entryBytes is the size of an entry of the status with its values.
func entryBytes(m *workv1.ManifestCondition) int {
	r := &m.ResourceMeta
	return manifestBytes + metaBytes + textBytes(r.Group, r.Version, r.Kind, r.Resource, r.Namespace, r.Name) +
		conditionsBytes(m.Conditions) + valuesBytes(m.StatusFeedback.Values)
}

func statusBytes(status *workv1.ManifestWorkStatus) int {
	n := manifestBytes + conditionsBytes(status.Conditions)
	for i := range status.ResourceStatus.Manifests {
		n += entryBytes(&status.ResourceStatus.Manifests[i])
	}
	return n
}

func listedSize(r *workv1.AppliedManifestResourceMeta) int {
	return listedBytes + textBytes(r.Group, r.Version, r.Resource, r.Namespace, r.Name, r.UID)
}

// shorten cuts a text to a number of bytes, at the end of a character.
func shorten(text string, limit int) string {
	const ending = "..."
	if len(text) <= limit {
		return text
	}
	cut := max(0, limit-len(ending))
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ending
}
