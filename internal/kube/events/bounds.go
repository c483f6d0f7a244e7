// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// NoteBytesMax is how long the API lets the note of an event be.
	NoteBytesMax = 1024
	// nameBytesMax is how long names are in the API, and versionBytesMax a group with its
	// version. It does not look at those of what an event is about.
	nameBytesMax    = 253
	versionBytesMax = nameBytesMax + len("/") + 63
	// ellipsis shows that a text was longer.
	ellipsis = "…"
)

// ShortenNote returns the text as the note of an event: as it is, or cut at the end of
// a character and marked if it is too long.
func ShortenNote(text string) string { return shortenText(text, NoteBytesMax) }

func shortenText(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax-len(ellipsis)], "") + ellipsis
}

// ShortenReference returns the reference with nothing in it that is longer than the API lets it
// be in an object.
func ShortenReference(to corev1.ObjectReference) corev1.ObjectReference {
	to.APIVersion = shortenText(to.APIVersion, versionBytesMax)
	for _, text := range []*string{&to.Kind, &to.Namespace, &to.Name, (*string)(&to.UID), &to.ResourceVersion, &to.FieldPath} {
		*text = shortenText(*text, nameBytesMax)
	}
	return to
}

// referenceTo returns what an object is known by. Its kind is that of the type if it does not
// say it, and it has no version then. Nil is known by nothing.
func referenceTo(object runtime.Object) (to corev1.ObjectReference) {
	if object == nil {
		return to
	}
	if reference, is := object.(*corev1.ObjectReference); is {
		return *reference
	}
	to.APIVersion = object.GetObjectKind().GroupVersionKind().GroupVersion().String()
	to.Kind = objectKindName(object)
	if named, err := meta.Accessor(object); err == nil {
		to.Namespace = named.GetNamespace()
		to.Name = named.GetName()
		to.UID = named.GetUID()
		to.ResourceVersion = named.GetResourceVersion()
	}
	return to
}

// objectKindName returns the kind of an object. Typed ones often do not have it.
func objectKindName(object runtime.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndex(name, ".")+1:]
}

// shortenNames returns an object by which client-go refers to it: itself, or one of its kind with
// what ShortenReference leaves, as a name may be a user's that no object has.
func shortenNames(object runtime.Object) runtime.Object {
	to := referenceTo(object)
	short := ShortenReference(to)
	if short == to {
		return object
	}
	if _, is := object.(*corev1.ObjectReference); is {
		return &short
	}
	object = object.DeepCopyObject()
	if named, err := meta.Accessor(object); err == nil {
		named.SetNamespace(short.Namespace)
		named.SetName(short.Name)
		named.SetUID(short.UID)
		named.SetResourceVersion(short.ResourceVersion)
	}
	return object
}
