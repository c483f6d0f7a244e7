// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// ObjectRef names an object of a cluster, whatever its version.
type ObjectRef struct {
	Group, Resource string
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
}

// String returns resource.group namespace/name, as kubectl takes it.
func (o ObjectRef) String() string {
	resource := schema.GroupResource{Group: o.Group, Resource: o.Resource}.String()
	if o.Namespace == "" {
		return resource + " " + o.Name
	}
	return resource + " " + o.Namespace + "/" + o.Name
}

// ManifestHash tells manifests with different content apart.
type ManifestHash [16]byte

// Manifest is what is known of a manifest without the cluster.
type Manifest struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	Hash            ManifestHash
}

// ErrNotObject says that a manifest is not an object that could be applied.
var ErrNotObject = errors.New("not a Kubernetes object that can be applied")

// ParseManifest returns what the JSON of a manifest is about. Its errors are
// ErrNotObject, say what is wrong and are meant for the author of the
// manifest; the manifest then has what could be read.
func ParseManifest(raw []byte) (Manifest, error) {
	m := Manifest{Hash: HashManifest(raw)}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name         string `json:"name"`
			Namespace    string `json:"namespace"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if len(raw) == 0 || string(raw) == "null" {
		return m, fmt.Errorf("%w: the manifest is empty", ErrNotObject)
	}
	if err := utiljson.Unmarshal(raw, &head); err != nil {
		return m, fmt.Errorf("%w: %w", ErrNotObject, err)
	}
	m.Namespace = head.Metadata.Namespace
	m.Name = head.Metadata.Name
	gv, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil {
		return m, fmt.Errorf("%w: apiVersion: %w", ErrNotObject, err)
	}
	m.Kind = gv.WithKind(head.Kind)
	switch {
	case head.APIVersion == "":
		err = fmt.Errorf("%w: apiVersion is missing", ErrNotObject)
	case head.Kind == "":
		err = fmt.Errorf("%w: kind is missing", ErrNotObject)
	case head.Metadata.Name == "" && strings.HasSuffix(head.Kind, "List"):
		err = fmt.Errorf("%w: it is a list; add each of its items as a manifest", ErrNotObject)
	case head.Metadata.Name == "" && head.Metadata.GenerateName != "":
		err = fmt.Errorf("%w: metadata.generateName would create a new object each time; set metadata.name", ErrNotObject)
	case head.Metadata.Name == "":
		err = fmt.Errorf("%w: metadata.name is missing", ErrNotObject)
	case !isPathSegment(head.Metadata.Name):
		err = fmt.Errorf("%w: metadata.name %q cannot be part of a path", ErrNotObject, head.Metadata.Name)
	case head.Metadata.Namespace != "" && !isPathSegment(head.Metadata.Namespace):
		err = fmt.Errorf("%w: metadata.namespace %q cannot be part of a path", ErrNotObject, head.Metadata.Namespace)
	}
	return m, err
}

// isPathSegment reports whether a name leads nowhere else when it is put into the
// path of a request.
func isPathSegment(name string) bool { return len(content.IsPathSegmentName(name)) == 0 }

// HashManifest returns the hash of the JSON of a manifest.
func HashManifest(raw []byte) ManifestHash {
	sum := sha256.Sum256(raw)
	return ManifestHash(sum[:len(ManifestHash{})])
}

// Stamp is what an object gets from us beside its manifest.
type Stamp struct {
	// Label with the value "true" is put on the object.
	Label string
	// Owners are added to the object's owners.
	Owners []metav1.OwnerReference
	// Annotations are added to those of the manifest.
	Annotations map[string]string
	// Namespace replaces that of the manifest.
	Namespace string
	// UID makes the server refuse any other object, and making a new one.
	UID types.UID
	// ResourceVersion makes the server refuse an object that has changed since.
	ResourceVersion string
	// Without are fields of the manifest to leave away.
	Without []ignore.Path
	// Undeclared are fields that the server does not know, to leave away as well. The paths
	// are those of the manifest without the fields of Without.
	Undeclared []ignore.Path
	// MetadataOnly leaves everything but the stamp and the names away.
	MetadataOnly bool
}

const (
	// textCopies is how often there is the text of a manifest while it is decoded and written anew.
	textCopies = 8
	// keptCopies is how often there is its content while an object is compared with one in the cluster:
	// that has as much, and what is made of both.
	keptCopies = 3
)

// contentBytes is about how many bytes a manifest takes while something is made of its content.
func contentBytes(raw []byte) int64 {
	return decoding.DecodedBytes(raw) + (textCopies-1)*int64(len(raw))
}

// KeepContent waits until there is room for the content of a manifest, for the object in the cluster, and for
// what is made of both, and keeps that until the end of the reservation of ctx, if it has one: requests do
// not end it. Nothing may be used that was decoded before. Kept says that others may wait for it.
func KeepContent(ctx context.Context, raw []byte) (kept bool, err error) {
	return decoding.KeepMemory(ctx, keptCopies*contentBytes(raw))
}

// NormalizedContent returns the decoded JSON of a manifest, with its fields where the API server
// stores them, and without those that a controller writes. It waits until there is room for that in the
// reservation of ctx, if it has one; the next request to a Member ends that, so that the content must
// not be used after it unless KeepContent was called. Its errors are ErrNotObject, unless ctx ended.
func NormalizedContent(ctx context.Context, raw []byte) (map[string]any, error) {
	content, err := decodeManifest(ctx, raw)
	normalizeContent(content)
	return content, err
}

func decodeManifest(ctx context.Context, raw []byte) (map[string]any, error) {
	if err := decoding.TakeMemory(ctx, contentBytes(raw)); err != nil {
		return nil, err
	}
	var content map[string]any
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotObject, err)
	}
	return content, nil
}

// RenderBody returns what to send to the server to apply a manifest: its content
// with the stamp, and without what only a server can say. It waits for room and fails
// as NormalizedContent does.
func RenderBody(ctx context.Context, raw []byte, stamp Stamp) ([]byte, error) {
	content, err := NormalizedContent(ctx, raw)
	if err != nil {
		return nil, err
	}
	ignore.RemovePaths(content, stamp.Without)
	ignore.RemovePaths(content, stamp.Undeclared)
	given, ok := content["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: metadata is missing", ErrNotObject)
	}
	metadata := map[string]any{"name": given["name"]}
	if stamp.MetadataOnly {
		content = map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"]}
		given = map[string]any{}
	}
	for key, value := range given {
		switch key {
		case "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink":
		default:
			metadata[key] = value
		}
	}
	content["metadata"] = metadata
	delete(metadata, "namespace")
	if stamp.Namespace != "" {
		metadata["namespace"] = stamp.Namespace
	}
	if stamp.UID != "" {
		metadata["uid"] = string(stamp.UID)
	}
	if stamp.ResourceVersion != "" {
		metadata["resourceVersion"] = stamp.ResourceVersion
	}
	if err := stampMetadata(metadata, stamp); err != nil {
		return nil, err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return body, nil
}

// stampMetadata adds the label, the annotations and the owners of the stamp.
func stampMetadata(metadata map[string]any, stamp Stamp) error {
	if err := putTexts(metadata, "labels", map[string]string{stamp.Label: "true"}); err != nil {
		return err
	}
	if err := putTexts(metadata, "annotations", stamp.Annotations); err != nil {
		return err
	}
	owners, ok := metadata["ownerReferences"].([]any)
	if !ok && metadata["ownerReferences"] != nil {
		return fmt.Errorf("%w: metadata.ownerReferences is not a list", ErrNotObject)
	}
	for i := range stamp.Owners {
		o := &stamp.Owners[i]
		owners = append(owners, map[string]any{
			"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": string(o.UID),
		})
	}
	metadata["ownerReferences"] = owners
	return nil
}

// putTexts adds texts to one of the maps in the metadata.
func putTexts(metadata map[string]any, field string, texts map[string]string) error {
	all, ok := metadata[field].(map[string]any)
	if !ok && metadata[field] != nil {
		return fmt.Errorf("%w: metadata.%s is not a map", ErrNotObject, field)
	}
	if len(texts) == 0 {
		return nil
	}
	if all == nil {
		all = map[string]any{}
	}
	for key, text := range texts {
		all[key] = text
	}
	metadata[field] = all
	return nil
}

// RenderRelease returns what to send with a field manager that applied an object
// before, so that it owns nothing of it any more, provided that the object
// still is the one with the given UID and resourceVersion.
func RenderRelease(kind schema.GroupVersionKind, object ObjectRef, uid types.UID, resourceVersion string) ([]byte, error) {
	metadata := map[string]any{"name": object.Name, "uid": string(uid), "resourceVersion": resourceVersion}
	if object.Namespace != "" {
		metadata["namespace"] = object.Namespace
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": metadata,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the release of %s: %w", object, err)
	}
	return body, nil
}
