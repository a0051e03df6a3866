// Command consumer gets into a cluster as a controller on the Cluster Inventory API does, with that API's
// library between: it reads a ClusterProfile from the hub (the default kubeconfig) and a file of access
// providers, makes a rest.Config of the two, and prints who it is at the cluster and the namespaces there.
// With -argocd-secret it gets in as Argo CD does, by a cluster Secret, and tells its plugin nothing.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// execExtension is the extension of a cluster that client-go's own kubeconfig loader hands to the plugin too.
const execExtension = "client.authentication.k8s.io/exec"

type providerFile struct {
	Providers []struct {
		Name       string                   `json:"name"`
		ExecConfig *clientcmdapi.ExecConfig `json:"execConfig"`
	} `json:"providers"`
}

type accessProvider struct {
	Name    string              `json:"name"`
	Cluster clientcmdv1.Cluster `json:"cluster"`
}

func main() {
	file := flag.String("clusterprofile-provider-file", "", "the access providers and their plugins")
	namespace := flag.String("namespace", "", "namespace of the ClusterProfile")
	name := flag.String("name", "", "name of the ClusterProfile")
	secret := flag.String("argocd-secret", "", "a cluster Secret of Argo CD, in JSON, instead of these")
	flag.Parse()
	if err := run(*file, *namespace, *name, *secret); err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

func run(file, namespace, name, secret string) error {
	ctx := context.Background()
	config, err := func() (*rest.Config, error) {
		if secret != "" {
			return argocd(secret)
		}
		published, err := accessProviders(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		return spoke(file, published)
	}()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Println(me.Status.UserInfo.Username)
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, namespace := range list.Items {
		fmt.Println(namespace.Name)
	}
	return nil
}

// accessProviders reads what the profile publishes.
func accessProviders(ctx context.Context, namespace, name string) ([]accessProvider, error) {
	hub, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(hub)
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	profile, err := client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(profile.Object["status"])
	if err != nil {
		return nil, err
	}
	var status struct {
		AccessProviders []accessProvider `json:"accessProviders"`
	}
	return status.AccessProviders, json.Unmarshal(text, &status)
}

// spoke joins the first provider of the file that the profile publishes with what it publishes for it.
func spoke(path string, published []accessProvider) (*rest.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file providerFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	for _, provider := range file.Providers {
		for _, access := range published {
			if access.Name == provider.Name {
				return join(provider.ExecConfig, access.Cluster), nil
			}
		}
	}
	return nil, fmt.Errorf("no provider of %s is published", path)
}

func join(plugin *clientcmdapi.ExecConfig, cluster clientcmdv1.Cluster) *rest.Config {
	if plugin.InteractiveMode == "" {
		plugin.InteractiveMode = clientcmdapi.IfAvailableExecInteractiveMode
	}
	for _, extension := range cluster.Extensions {
		if extension.Name == execExtension {
			plugin.Config = &runtime.Unknown{Raw: extension.Extension.Raw, ContentType: runtime.ContentTypeJSON}
		}
	}
	return &rest.Config{
		Host:            cluster.Server,
		TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CertificateAuthorityData},
		ExecProvider:    plugin,
	}
}

// argocd makes of a cluster Secret what Argo CD makes of it.
func argocd(path string) (*rest.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var secret struct {
		StringData struct {
			Server string `json:"server"`
			Config string `json:"config"`
		} `json:"stringData"`
	}
	if err := json.Unmarshal(text, &secret); err != nil {
		return nil, err
	}
	var config struct {
		ExecProviderConfig struct {
			Command     string            `json:"command"`
			Args        []string          `json:"args"`
			Env         map[string]string `json:"env"`
			APIVersion  string            `json:"apiVersion"`
			InstallHint string            `json:"installHint"`
		} `json:"execProviderConfig"`
		TLSClientConfig struct {
			Insecure   bool   `json:"insecure"`
			ServerName string `json:"serverName"`
			CAData     []byte `json:"caData"`
		} `json:"tlsClientConfig"`
	}
	if err := json.Unmarshal([]byte(secret.StringData.Config), &config); err != nil {
		return nil, err
	}
	plugin := config.ExecProviderConfig
	exec := &clientcmdapi.ExecConfig{
		APIVersion:      plugin.APIVersion,
		Command:         plugin.Command,
		Args:            plugin.Args,
		InstallHint:     plugin.InstallHint,
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
	for name, value := range plugin.Env {
		exec.Env = append(exec.Env, clientcmdapi.ExecEnvVar{Name: name, Value: value})
	}
	tls := config.TLSClientConfig
	return &rest.Config{
		Host:            secret.StringData.Server,
		TLSClientConfig: rest.TLSClientConfig{Insecure: tls.Insecure, ServerName: tls.ServerName, CAData: tls.CAData},
		ExecProvider:    exec,
	}, nil
}
