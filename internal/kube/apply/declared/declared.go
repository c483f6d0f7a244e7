// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package declared asks an API server what its OpenAPI declares of the fields of kinds.
//
// Non-goal: it validates nothing.
package declared

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/kube/apply/owned"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

const (
	// answersMax is how many answers are kept, each of some bytes. What they were found in is
	// not kept: there may be as many as group versions, in each of many clusters.
	answersMax = 1000
	// knownFor is for how long an answer is kept: a definition may change. unknownFor is for
	// how long a server is not asked again that has none, shorter than refused objects wait.
	knownFor   = 5 * time.Minute
	unknownFor = 20 * time.Second
	// readTimeout is how long one request may take.
	readTimeout = 30 * time.Second
)

// SchemaFields knows what an API server declares. It asks for one group version at a time. It is
// safe for concurrent use.
type SchemaFields struct {
	client  rest.Interface
	answers *cache.LRUExpireCache
	turn    chan struct{}
	memory  *decoding.Memory
	cluster string
}

// NewSchemaFields returns the fields of the server of a client. The memory has room for what is decoded; those
// of other clusters may share it, each with its own share by the name of the cluster. It may be
// nil.
func NewSchemaFields(client rest.Interface, clock clock.PassiveClock, memory *decoding.Memory, cluster string) *SchemaFields {
	return &SchemaFields{
		client: client, answers: cache.NewLRUExpireCacheWithClock(answersMax, clock), turn: make(chan struct{}, 1), memory: memory, cluster: cluster,
	}
}

// DeclaredFor returns what is declared of a kind. The server is asked once if at all: for the first
// question whose answer is not kept. It is not known what the server does not tell, or what
// it tells with more than any server does. It is not safe for concurrent use.
func (f *SchemaFields) DeclaredFor(ctx context.Context, kind schema.GroupVersionKind) owned.Declared {
	q := &kindQuestions{fields: f, kind: kind}
	return func(path fieldpath.Path, list bool) (one, known bool) {
		given := q.askIsAtomic(ctx, path, list)
		return given.one, given.known
	}
}

// atomicAnswer is whether something is one value, if that is known.
type atomicAnswer struct{ one, known bool }

// kindQuestions are those about one kind.
type kindQuestions struct {
	fields *SchemaFields
	kind   schema.GroupVersionKind
	// types are what the server answered, nil before it was asked.
	types *schemaTypes
}

func (q *kindQuestions) askIsAtomic(ctx context.Context, path fieldpath.Path, list bool) atomicAnswer {
	key := answerKey(q.kind, path, list)
	given, kept := q.fields.cachedAnswer(key)
	if !kept && q.types == nil {
		select {
		case q.fields.turn <- struct{}{}:
		case <-ctx.Done():
			return atomicAnswer{}
		}
		defer func() { <-q.fields.turn }()
		if given, kept = q.fields.cachedAnswer(key); !kept { // not even by who was first
			q.types = q.fields.readTypes(ctx, q.kind)
		}
		if ctx.Err() != nil {
			return atomicAnswer{}
		}
	}
	if kept {
		return given
	}
	given = q.types.resolveIsAtomic(path, list)
	if given.known {
		q.fields.answers.Add(key, given, knownFor)
	} else {
		q.fields.answers.Add(key, given, unknownFor)
	}
	return given
}

func (f *SchemaFields) cachedAnswer(key [sha256.Size]byte) (given atomicAnswer, kept bool) {
	value, kept := f.answers.Get(key)
	given, _ = value.(atomicAnswer)
	return given, kept
}

// readTypes returns the types of a kind, with nothing in them if the server does not tell.
func (f *SchemaFields) readTypes(ctx context.Context, kind schema.GroupVersionKind) *schemaTypes {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	group := []string{"/openapi/v3/apis", kind.Group, kind.Version}
	if kind.Group == "" {
		group = []string{"/openapi/v3/api", kind.Version}
	}
	document, err := f.client.Get().AbsPath(group...).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if err != nil {
		return &schemaTypes{}
	}
	return f.decodeTypes(ctx, document, kind)
}

// decodeTypes returns the types in a document, none if there is more in it than is taken.
func (f *SchemaFields) decodeTypes(ctx context.Context, document []byte, kind schema.GroupVersionKind) *schemaTypes {
	if !isBounded(document) {
		return &schemaTypes{}
	}
	ctx, end := f.memory.BeginReservation(ctx, f.cluster)
	defer end()
	if decoding.TakeMemory(ctx, typeFactor*decoding.DecodedBytes(document)) != nil {
		return &schemaTypes{}
	}
	return parseSchemaTypes(document, kind)
}

// answerKey returns what an answer is kept by. Items of a list are all alike.
func answerKey(kind schema.GroupVersionKind, path fieldpath.Path, list bool) [sha256.Size]byte {
	text := fmt.Appendf(nil, "%q %q %q %t", kind.Group, kind.Version, kind.Kind, list)
	for _, element := range path {
		if element.FieldName != nil {
			text = fmt.Appendf(text, " %q", *element.FieldName)
		} else {
			text = append(text, " []"...)
		}
	}
	return sha256.Sum256(text)
}
