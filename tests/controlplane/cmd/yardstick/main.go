// Command yardstick is an exec credential plugin as plain as client-go makes it: what ours is measured against.
// It reads the Secret <clusterName>-<account> and prints its token; no cache, no expiry.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/auth/exec"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	account := flag.String("managed-serviceaccount", "", "the ManagedServiceAccount whose token is wanted")
	flag.Parse()
	if err := run(*account); err != nil {
		fmt.Fprintln(os.Stderr, "yardstick:", err)
		os.Exit(1)
	}
}

func run(account string) error {
	if account == "" {
		return fmt.Errorf("--managed-serviceaccount is required")
	}
	cluster, err := clusterName()
	if err != nil {
		return err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if err != nil {
		return err
	}
	namespace := os.Getenv("NAMESPACE")
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	secret, err := client.CoreV1().Secrets(namespace).Get(context.Background(), cluster+"-"+account, metav1.GetOptions{})
	if err != nil {
		return err
	}
	token := secret.Data["token"]
	if len(token) == 0 {
		return fmt.Errorf("secret %s/%s has no token", namespace, secret.Name)
	}
	return json.NewEncoder(os.Stdout).Encode(&clientauthenticationv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{
			APIVersion: clientauthenticationv1.SchemeGroupVersion.String(),
			Kind:       "ExecCredential",
		},
		Status: &clientauthenticationv1.ExecCredentialStatus{Token: string(token)},
	})
}

// clusterName is what KUBERNETES_EXEC_INFO says in spec.cluster.config.
func clusterName() (string, error) {
	info, _, err := exec.LoadExecCredentialFromEnv()
	if err != nil {
		return "", err
	}
	credential, ok := info.(*clientauthenticationv1.ExecCredential)
	if !ok || credential.Spec.Cluster == nil {
		return "", fmt.Errorf("KUBERNETES_EXEC_INFO has no spec.cluster of %s", clientauthenticationv1.SchemeGroupVersion)
	}
	var config struct {
		ClusterName string `json:"clusterName"`
	}
	if err := json.Unmarshal(credential.Spec.Cluster.Config.Raw, &config); err != nil {
		return "", fmt.Errorf("spec.cluster.config: %w", err)
	}
	if config.ClusterName == "" {
		return "", fmt.Errorf("spec.cluster.config has no clusterName")
	}
	return config.ClusterName, nil
}
