// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/version"
	sigsyaml "sigs.k8s.io/yaml"
)

// object is a part of a manifest that has no type here.
type object = map[string]any

// annotations of metadata/annotations.yaml.
const (
	packageAnnotation        = "operators.operatorframework.io.bundle.package.v1"
	channelAnnotation        = "operators.operatorframework.io.bundle.channels.v1"
	defaultChannelAnnotation = "operators.operatorframework.io.bundle.channel.default.v1"
)

// bundle is what the catalog has of one bundle.
type bundle struct {
	packageName, channel, defaultChannel, image string
	version                                     *version.Version
	csv                                         serviceVersion
}

type serviceVersion struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Version       string   `json:"version"`
		Replaces      string   `json:"replaces"`
		DisplayName   string   `json:"displayName"`
		Description   string   `json:"description"`
		Maturity      string   `json:"maturity"`
		Keywords      []string `json:"keywords"`
		MinKube       string   `json:"minKubeVersion"`
		Provider      object   `json:"provider"`
		Maintainers   []object `json:"maintainers"`
		Links         []object `json:"links"`
		Icon          []icon   `json:"icon"`
		InstallModes  []object `json:"installModes"`
		RelatedImages []object `json:"relatedImages"`
		Definitions   struct {
			Owned []object `json:"owned"`
		} `json:"customresourcedefinitions"`
	} `json:"spec"`
}

type icon struct {
	Data      string `json:"base64data"`
	MediaType string `json:"mediatype"`
}

// readBundle reads the bundle in a directory, whose image is the given one or,
// if that is empty, the one that a release pushes to the registry.
func readBundle(directory, registry, image string) (bundle, error) {
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := read(filepath.Join(directory, "metadata", "annotations.yaml"), &metadata); err != nil {
		return bundle{}, err
	}
	b := bundle{
		packageName:    metadata.Annotations[packageAnnotation],
		channel:        metadata.Annotations[channelAnnotation],
		defaultChannel: metadata.Annotations[defaultChannelAnnotation],
		image:          image,
	}
	path := filepath.Join(directory, "manifests", b.packageName+".clusterserviceversion.yaml")
	if err := read(path, &b.csv); err != nil {
		return b, err
	}
	number, err := version.ParseSemantic(b.csv.Spec.Version)
	if err != nil {
		return b, fmt.Errorf("reading the version in %s: %w", path, err)
	}
	b.version = number
	if b.image == "" {
		b.image = fmt.Sprintf("%s/%s-bundle:%s", registry, b.packageName, b.csv.Spec.Version)
	}
	return b, nil
}

func read(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a bundle: %w", err)
	}
	if err := sigsyaml.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
