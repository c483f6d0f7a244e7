// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// skipRange is the annotation with the versions that need not be installed
// before this one.
const skipRange = "olm.skipRange"

// catalog returns the package, its channel and its bundles, oldest first, as
// OLM's catalogs have them.
func catalog(name string, bundles []bundle) ([]object, error) {
	slices.SortFunc(bundles, func(a, b bundle) int {
		if a.version.LessThan(b.version) {
			return -1
		}
		if b.version.LessThan(a.version) {
			return 1
		}
		return 0
	})
	newest := bundles[len(bundles)-1]
	entries, err := channelEntries(bundles)
	if err != nil {
		return nil, err
	}
	blobs := []object{{
		"schema": "olm.package", "name": name, "defaultChannel": newest.defaultChannel,
		"description": newest.csv.Spec.Description,
		"icon":        object{"base64data": newest.csv.Spec.Icon[0].Data, "mediatype": newest.csv.Spec.Icon[0].MediaType},
	}, {
		"schema": "olm.channel", "package": name, "name": newest.channel, "entries": entries,
	}}
	for _, b := range bundles {
		blobs = append(blobs, b.blob())
	}
	return blobs, nil
}

// channelEntries returns the graph of upgrades: a chain, in which each bundle
// replaces the one before it. What the oldest one replaces need not be there, as
// in opm's catalogs: a release has nothing but the bundles of its own version.
func channelEntries(bundles []bundle) ([]object, error) {
	var entries []object
	previous := ""
	for i, b := range bundles {
		name, replaces := b.csv.Metadata.Name, b.csv.Spec.Replaces
		if name == previous {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		if len(b.csv.Spec.Icon) == 0 {
			return nil, fmt.Errorf("%s has no icon", name)
		}
		if i > 0 && replaces != previous {
			return nil, fmt.Errorf("%s replaces %q, but what is before it in the channel is %q: name the bundles of all versions, or make it with another -replaces", name, replaces, previous)
		}
		entry := object{"name": name}
		if replaces != "" {
			entry["replaces"] = replaces
		}
		if skipped := b.csv.Metadata.Annotations[skipRange]; skipped != "" {
			entry["skipRange"] = skipped
		}
		entries = append(entries, entry)
		previous = name
	}
	return entries, nil
}

func (b bundle) blob() object {
	spec, metadata := b.csv.Spec, b.csv.Metadata
	property := func(kind string, value object) object { return object{"type": kind, "value": value} }
	var properties []object
	for _, owned := range spec.Definitions.Owned {
		properties = append(properties, property("olm.gvk", gvk(owned)))
	}
	properties = append(properties,
		property("olm.package", object{"packageName": b.packageName, "version": spec.Version}),
		property("olm.csv.metadata", object{
			"annotations": metadata.Annotations, "labels": metadata.Labels,
			"apiServiceDefinitions": object{}, "crdDescriptions": object{"owned": spec.Definitions.Owned},
			"description": spec.Description, "displayName": spec.DisplayName, "installModes": spec.InstallModes,
			"keywords": spec.Keywords, "links": spec.Links, "maintainers": spec.Maintainers, "maturity": spec.Maturity,
			"minKubeVersion": spec.MinKube, "provider": spec.Provider,
		}))
	return object{
		"schema": "olm.bundle", "package": b.packageName, "name": metadata.Name, "image": b.image,
		"properties":    properties,
		"relatedImages": append([]object{{"name": "", "image": b.image}}, spec.RelatedImages...),
	}
}

// gvk returns the kind of an owned definition, whose name is that of its
// resource, a dot, and its group.
func gvk(owned object) object {
	_, group, _ := strings.Cut(fmt.Sprint(owned["name"]), ".")
	return object{"group": group, "kind": owned["kind"], "version": owned["version"]}
}
