// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stored

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// storedObject is a pointer to T, which is the type of stored objects.
type storedObject[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// HubResource reads and writes the objects of a resource of the hub.
type HubResource[T any, O storedObject[T]] struct {
	*gentype.Client[O]
	lists func() *rest.Request
	codec runtime.ParameterCodec
}

// NewHubResource returns the objects of a resource, in one namespace or, for "", all.
func NewHubResource[T any, O storedObject[T]](client rest.Interface, codec runtime.ParameterCodec, resource, namespace string) *HubResource[T, O] {
	return &HubResource[T, O]{
		Client: gentype.NewClient(resource, client, codec, namespace, func() O { return new(T) }),
		lists: func() *rest.Request {
			return client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource)
		},
		codec: codec,
	}
}

// List gives each object of a list to take as soon as it is there, while the hub
// still encodes those behind it. So the list is never whole in memory as it was
// stored. An error means that what was taken is not all.
func (r *HubResource[T, O]) List(ctx context.Context, o metav1.ListOptions, take func(O)) (metav1.ListMeta, error) {
	var meta metav1.ListMeta
	body, err := r.lists().VersionedParams(&o, r.codec).Stream(ctx)
	if err != nil {
		return meta, err //nolint:wrapcheck // View.Problem reads what the hub says
	}
	defer func() { _ = body.Close() }() // it was only read

	decoder := json.NewDecoder(body)
	if err := readOpeningDelim(decoder, '{'); err != nil {
		return meta, err
	}
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return meta, cutOff(err)
		}
		switch field {
		case "metadata":
			err = decoder.Decode(&meta)
		case "items":
			err = decodeItems[T](decoder, take)
		default:
			err = decoder.Decode(&json.RawMessage{})
		}
		if err != nil {
			return meta, cutOff(err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return meta, cutOff(err)
	}
	return meta, nil
}

// decodeItems decodes the items of a list.
func decodeItems[T any, O storedObject[T]](decoder *json.Decoder, take func(O)) error {
	if err := readOpeningDelim(decoder, '['); err != nil {
		return err
	}
	for decoder.More() {
		item := O(new(T))
		if err := decoder.Decode(item); err != nil {
			return err //nolint:wrapcheck // List does
		}
		take(item)
	}
	_, err := decoder.Token()
	return err //nolint:wrapcheck // List does
}

// readOpeningDelim reads the beginning of an object or of a list.
func readOpeningDelim(decoder *json.Decoder, with json.Delim) error {
	token, err := decoder.Token()
	if err != nil {
		return cutOff(err)
	}
	if token != with {
		return fmt.Errorf("the hub's list has %v where %v was expected", token, with)
	}
	return nil
}

func cutOff(err error) error { return fmt.Errorf("read the hub's list: %w", err) }
